"""The models of an installation, and a check that they answer."""
