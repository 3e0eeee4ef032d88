"""Unit tests of `api/identity`."""
