"""Unit tests of `worker`."""
