"""Postgres, the source of truth: all rows that Foldex reads or writes, grouped by subject."""
