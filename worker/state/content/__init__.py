"""Rows of a project's own content tree, and the objects with the content of its files."""
