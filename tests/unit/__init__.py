"""Tests of single units, without servers."""
