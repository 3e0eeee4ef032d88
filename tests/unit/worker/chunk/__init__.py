"""Unit tests of `worker/chunk`."""
