"""Rows of a project's own content tree, and the objects that hold its files."""
