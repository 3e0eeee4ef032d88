"""Notices changes in the folders of each kind of source."""
