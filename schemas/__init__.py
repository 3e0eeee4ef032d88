"""Data models, enums, errors and SQL migrations of Foldex. No I/O."""
