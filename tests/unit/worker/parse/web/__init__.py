"""Unit tests of `worker/parse/web`."""
