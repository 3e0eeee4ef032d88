"""Unit tests of `api/routes/content`."""
