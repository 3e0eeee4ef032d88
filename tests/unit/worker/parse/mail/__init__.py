"""Unit tests of `worker/parse/mail`."""
