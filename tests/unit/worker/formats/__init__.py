"""Unit tests of `worker/formats`."""
