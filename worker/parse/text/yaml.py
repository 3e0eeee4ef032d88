"""Reads YAML, unchanged: comments are worth finding, and files with template markup are common."""

from __future__ import annotations

from schemas.document import Document
from worker.parse.limits import Limits
from worker.parse.text.encodings import decode


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a YAML text, which is not checked. Raises what `encodings.decode` does."""
    return Document(decode(data), "yaml", "yaml", markup="keys")
