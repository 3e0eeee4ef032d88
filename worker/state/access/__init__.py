"""Access: the project that a key opens, and the places that a project may read."""
