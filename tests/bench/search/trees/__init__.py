"""Compares summary trees with plain search, by questions whose answers stand in several places."""
