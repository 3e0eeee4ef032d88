"""Unit tests of `api/search/grep`."""
