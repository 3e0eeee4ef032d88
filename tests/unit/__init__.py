"""Single parts, without servers."""
