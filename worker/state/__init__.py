"""Postgres, the truth: every row that Foldex reads or writes, by what it is about."""
