"""What a process does for several projects, shared fairly between them."""
