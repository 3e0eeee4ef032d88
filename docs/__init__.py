"""The documentation; `docs.generate` writes the parts of the reference that follow from the code."""
