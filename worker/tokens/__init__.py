"""Splits texts into the tokens of models and the keywords of searches."""

#: Maximum bytes of a character in UTF-8.
MAX_CHARACTER_BYTES = 4
