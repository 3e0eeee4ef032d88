"""JSON Lines are kept as they stand and cut between lines, so that a broken line harms nobody but itself."""

from __future__ import annotations

from schemas.document import Document
from worker.parse.limits import Limits
from worker.parse.text.encodings import decode


def read(data: bytes, _limits: Limits) -> Document:
    """The document of JSON Lines; lines are not checked. Raises what `text.decode` does."""
    return Document(decode(data), "jsonl", "json")
