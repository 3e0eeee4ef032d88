"""Modules that share one service with a fake provider's model, and one root."""
