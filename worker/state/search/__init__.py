"""Rows as searches read them."""
