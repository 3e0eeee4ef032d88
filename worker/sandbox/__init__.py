"""Talks to helper processes, which parse untrusted content so that no other process must."""
