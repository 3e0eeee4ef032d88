"""Patterns, line by line, in the files of a folder."""
