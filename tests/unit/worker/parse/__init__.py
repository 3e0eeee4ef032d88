"""Unit tests of `worker/parse`."""
