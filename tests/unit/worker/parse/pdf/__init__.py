"""Unit tests of `worker/parse/pdf`."""
