"""Cleans the names of uploaded files for the node tree."""

from __future__ import annotations

import hashlib
import re

from schemas.content.document import extension
from worker.tokens.normal_forms import normalized

#: Maximum bytes of one name, as in common file systems.
MAX_NAME = 255
#: Longest extension, in characters, that a shortened name keeps.
MAX_EXTENSION = 10
#: Maximum number of path parts.
MAX_DEPTH = 50

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"^[A-Za-z]:")
#: Quotes and control characters, as browsers and libraries escape them in a quoted name.
_ESCAPED = re.compile("%([01][0-9A-F]|22|7F)")


def clean_path(sent: str) -> tuple[str, ...]:
    """Split a file name, as it was sent, into folders and name; empty if no name is left.

    Both kinds of slash separate names. Drives, roots, `.`, `..` and control characters are removed. Names become
    NFC. A name that is too long is cut and gets a hash, which keeps it distinct.
    """
    sent = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), sent)
    parts = _DRIVE.sub("", sent.replace("\\", "/")).split("/")
    if not _clean(parts[-1]):
        return ()
    return tuple(name for part in parts if (name := _clean(part)))


def _clean(part: str) -> str:
    plain = _CONTROLS.sub("", normalized("NFC", part)).strip()
    return "" if plain in {".", ".."} else _shortened(plain)


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME:
        return name
    suffix = extension(name)
    ending = f"~{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    ending += f".{suffix}" if 0 < len(suffix) <= MAX_EXTENSION else ""
    return name.encode()[: MAX_NAME - len(ending.encode())].decode(errors="ignore") + ending
