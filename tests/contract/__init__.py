"""One suite for each seam, run over all its implementations."""
