"""Upkeep beside indexing: sweep, check, delete, watch."""
