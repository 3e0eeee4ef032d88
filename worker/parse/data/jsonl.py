"""Reads JSON Lines, unchanged. They are cut between lines, so that a broken line affects only itself."""

from __future__ import annotations

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of JSON Lines; lines are not checked. Raises as `encodings.decode`."""
    return Document(decode(data), "jsonl", "json")
