"""Unit tests of `worker/parse/office`."""
