"""Unit tests of `worker/reading`."""
