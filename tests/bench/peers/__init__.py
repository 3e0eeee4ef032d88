"""Compares Foldex with other indexers of folders."""
