"""Unit tests of `api/search/text`."""
