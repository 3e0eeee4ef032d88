"""Unit tests of `api/search/across`."""
