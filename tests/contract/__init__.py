"""One test suite for each interface, run over all its implementations."""
