"""Modules that share one service with a provider's model, its fake, and one root."""
