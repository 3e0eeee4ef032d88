"""Modules that share one service with the local model, and one root."""
