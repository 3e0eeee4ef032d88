"""The calls for nodes and what they hold."""
