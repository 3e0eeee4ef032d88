"""A model of what an index must hold, and a random machine that compares it with Foldex's index of a folder."""
