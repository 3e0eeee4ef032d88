"""Unit tests of `api/search/chunks`."""
