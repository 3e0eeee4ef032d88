"""Every test of Foldex. Each folder holds one kind of test."""
