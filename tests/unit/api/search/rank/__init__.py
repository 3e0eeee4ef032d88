"""Unit tests of `api/search/rank`."""
