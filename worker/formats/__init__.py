"""What file types there are, and how the type of a file is detected by name and by content."""
