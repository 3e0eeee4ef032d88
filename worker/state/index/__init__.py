"""Rows of tools, indexes, tasks, files and chunks: what runs write."""
