"""Splits texts into the tokens that models count, and the keywords that searches compare."""

#: Maximum bytes of a character in UTF-8.
MAX_CHARACTER_BYTES = 4
