"""Unit tests of `worker/parse/text`."""
