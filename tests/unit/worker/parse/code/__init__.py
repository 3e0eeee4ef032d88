"""Unit tests of `worker/parse/code`."""
