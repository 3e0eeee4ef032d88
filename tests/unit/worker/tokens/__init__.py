"""Unit tests of `worker/tokens`."""
