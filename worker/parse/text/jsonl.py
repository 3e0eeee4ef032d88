"""Reads JSON Lines, unchanged. They are cut between lines, so that a broken line affects only itself."""

from __future__ import annotations

from schemas.document import Document
from worker.parse.limits import Limits
from worker.parse.text.encodings import decode


def read(data: bytes, _limits: Limits) -> Document:
    """The document of JSON Lines; lines are not checked. Raises what `encodings.decode` does."""
    return Document(decode(data), "jsonl", "json")
