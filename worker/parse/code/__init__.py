"""Syntax trees of source code: definitions, references and errors."""
