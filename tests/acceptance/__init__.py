"""The whole service as its users see it."""
