"""Defines the supported file types and detects a file's type by name and by content."""
