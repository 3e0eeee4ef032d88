"""Compares definitions, references and callers with what language services find."""
