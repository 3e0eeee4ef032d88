"""Finds lines in a folder's files that match a pattern."""
