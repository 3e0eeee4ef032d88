"""Where content lives, and how it flows through an index run."""
