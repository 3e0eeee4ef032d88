"""Texts as tokens: those that models count, and the keywords that searches compare."""
