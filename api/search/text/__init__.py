"""Rebuilds the text of a file, or part of it, from its chunks."""
