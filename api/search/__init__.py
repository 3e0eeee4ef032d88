"""Answers to queries: one tool, several tools, and patterns."""
