"""Parses a file by its name and content, as a run does."""

from __future__ import annotations

from schemas.content.document import Document
from worker.formats.detect import detect
from worker.parse import Limits
from worker.parse import parse as parse_detected


def parse(name: str, data: bytes, limits: Limits, *, binaries: bool = False) -> Document:
    """The document of a file whose type nobody has detected yet."""
    return parse_detected(detect(name, data), data, limits, binaries=binaries)
