"""Unit tests of `worker/embed/local`."""
