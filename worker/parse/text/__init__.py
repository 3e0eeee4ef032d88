"""Reads formats that are plain text, and writes Markdown for those that are not."""
