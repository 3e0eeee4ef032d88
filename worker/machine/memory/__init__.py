"""Memory of a process: the shares of its parts, and what gives memory back."""
