"""Searches over a tree of summaries."""
