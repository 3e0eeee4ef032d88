"""Unit tests of `worker/sandbox`."""
