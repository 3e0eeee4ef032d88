"""Rows of tools, indexes, tasks, files and chunks, as runs write them."""
