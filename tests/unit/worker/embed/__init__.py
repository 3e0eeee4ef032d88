"""Unit tests of `worker/embed`."""
