"""Unit tests of `worker/state/index`."""
