"""Keys and cursors of a local folder: relative paths as bytes, which need not be UTF-8."""

from __future__ import annotations

from schemas.errors import FileError
from schemas.status import Reason

Parts = tuple[bytes, ...]


def key_of(parts: Parts) -> bytes:
    """Return the key of a path."""
    return b"/".join(parts)


def printable(key: bytes) -> str:
    """Return the path of a key as text, with bytes that are not UTF-8 escaped."""
    return key.decode("utf-8", "backslashreplace")


def parts_of(key: bytes) -> Parts:
    """Return the path of a key. Raises `FileError` if it leads elsewhere."""
    parts = tuple(key.split(b"/"))
    if b"\0" in key or not {b"", b".", b".."}.isdisjoint(parts):
        raise FileError(Reason.UNREADABLE)
    return parts


def cursor_of(parts: Parts) -> str:
    """Return the cursor after a path."""
    return key_of(parts).hex()


def parts_of_cursor(cursor: str | None) -> Parts:
    """Return the path before a cursor."""
    return tuple(bytes.fromhex(cursor).split(b"/")) if cursor else ()
