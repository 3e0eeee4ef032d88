"""The nouns and the errors of Foldex: models, enums and SQL migrations. No I/O."""
