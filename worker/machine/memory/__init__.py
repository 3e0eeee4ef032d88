"""Memory of a process: the shares of its parts, and its return to the machine."""
