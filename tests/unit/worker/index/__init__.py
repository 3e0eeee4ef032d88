"""Unit tests of `worker/index`."""
