"""A model of what an index must hold, and a random machine that compares it with what Foldex made of a folder."""
