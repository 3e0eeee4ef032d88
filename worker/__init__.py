"""How a folder becomes an index."""
