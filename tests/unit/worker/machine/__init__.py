"""Unit tests of `worker/machine`."""
