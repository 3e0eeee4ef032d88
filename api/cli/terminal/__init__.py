"""What the command line shows in a terminal."""
