"""Readers of data in text."""
