"""Splits texts into the tokens that models count, and the keywords that searches compare."""
