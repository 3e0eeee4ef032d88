"""Unit tests of `worker/ignore`."""
