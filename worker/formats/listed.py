"""Decides from a listing whether a file is read."""

from __future__ import annotations

from schemas.content.document import SourceEntry
from schemas.reason import Reason
from schemas.tool import IndexSettings
from worker.formats.by_name import with_stated_type
from worker.formats.detect import refusal


def reason_of(entry: SourceEntry, settings: IndexSettings) -> Reason | None:
    """Return the reason to skip a listed file: its source, its name or its size; None if it is read."""
    refused = None if "binaries" in settings.keep else refusal(with_stated_type(entry.path, entry.type))
    reason = entry.reason or (refused.reason if refused else None)
    return Reason.TOO_LARGE if reason is None and entry.size > settings.max_file_bytes else reason
