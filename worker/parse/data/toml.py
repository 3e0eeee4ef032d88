"""Reads TOML, unchanged, with its comments."""

from __future__ import annotations

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a TOML text, which is not checked. Raises as `encodings.decode`."""
    return Document(decode(data), "toml", "toml", markup="keys")
