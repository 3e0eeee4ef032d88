"""Which models an installation offers, and whether they answer."""
