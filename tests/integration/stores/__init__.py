"""Modules that share a service over each pair of stores."""
