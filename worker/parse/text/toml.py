"""Reads TOML, unchanged, with its comments."""

from __future__ import annotations

from schemas.document import Document
from worker.parse.limits import Limits
from worker.parse.text.encodings import decode


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a TOML text, which is not checked. Raises what `encodings.decode` does."""
    return Document(decode(data), "toml", "toml", markup="keys")
