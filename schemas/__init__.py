"""Data models, enums, errors, the schema of the database and its migrations. No I/O."""
