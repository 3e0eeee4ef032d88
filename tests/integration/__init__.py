"""Parts against real servers and processes."""
