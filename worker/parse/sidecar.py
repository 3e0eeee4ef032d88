"""Reads a sidecar: a JSON object with metadata of the file beside it."""

from __future__ import annotations

import json
from typing import NamedTuple

from schemas.content.metadata import Value, is_access_list, usable_metadata
from schemas.content.stated import MAX_SIDECAR_BYTES
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.wording import list_first

#: Maximum keys that a message names, and characters of each.
_MAX_NAMED, _MAX_KEY = 10, 64


class Sidecar(NamedTuple):
    """The metadata, and a sentence about left-out parts; None: nothing was left out."""

    metadata: dict[str, Value]
    warning: str | None


def read_sidecar(data: bytes) -> Sidecar:
    """Return the metadata in a sidecar. Raises `FileError` (`too_large`, `parse_failed`)."""
    if len(data) > MAX_SIDECAR_BYTES:
        kilobytes = MAX_SIDECAR_BYTES >> 10
        raise FileError(Reason.TOO_LARGE, f"A file with metadata has at most {kilobytes} KiB; leave keys out.")
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _wrong() from error
    if not isinstance(values, dict):
        raise _wrong()
    usable = usable_metadata(values.items())
    left_out = [key for key, value in values.items() if key not in usable and value is not None]
    return Sidecar(usable, _warning(left_out) if left_out else None)


def _wrong() -> FileError:
    return FileError(Reason.PARSE_FAILED, "A file with metadata is one JSON object of keys and values; correct it.")


def _warning(left_out: list[str]) -> str:
    named = list_first([repr(key[:_MAX_KEY]) for key in left_out], _MAX_NAMED)
    left = f"These keys are left out: {named}. Values are as those of nodes."
    if not any(map(is_access_list, left_out)):
        return left
    return f"{left} A file never decides who may read another one: set `acl` on nodes or in config.rules."
