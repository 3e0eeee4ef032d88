"""Every test of Foldex; each folder means one thing."""
