"""Access: which project a key opens, and which places a project may read."""
