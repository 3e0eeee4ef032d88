"""Reads HTML, and e-books, which consist of it."""
