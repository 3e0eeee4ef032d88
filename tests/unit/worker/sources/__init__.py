"""Unit tests of `worker/sources`."""
