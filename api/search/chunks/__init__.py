"""Finds chunks: the legs of a search, their fusion and what a repeated query keeps."""
