"""Unit tests of `worker/state`."""
