"""Formats that are text as they stand, and what writes Markdown for those that are not."""
