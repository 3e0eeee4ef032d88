"""Tests against real servers and processes."""
