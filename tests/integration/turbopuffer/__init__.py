"""Modules that share a service whose vectors are in Turbopuffer's fake."""
