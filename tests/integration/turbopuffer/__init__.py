"""Modules that share a service whose vectors are in the fake Turbopuffer."""
