"""Unit tests of `worker/upkeep`."""
