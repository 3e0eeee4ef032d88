"""Reaches a service from the command line, and starts one where none runs."""
