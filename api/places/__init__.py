"""Folders of the service's machine that may be indexed."""
