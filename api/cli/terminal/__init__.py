"""Output of the command line in a terminal."""
