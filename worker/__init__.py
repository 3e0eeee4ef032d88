"""Turns a folder into an index."""
