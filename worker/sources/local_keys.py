"""Keys and cursors of a local folder: relative paths as bytes, which need not be UTF-8.

A listing has names in byte order, with a directory's contents in its place. So keys are not in byte order: `a/b` comes
before `a.txt`. Spans of keys, which are in byte order, define the keys that a page of the listing covers.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.content.document import KeySpan
from schemas.errors import FileError
from schemas.reason import Reason

Parts = tuple[bytes, ...]

#: Maximum bytes of a key up to which a page has spans, whose number grows with the square of its length.
MAX_SPANNED_KEY = 4096
#: Sorts after every key: a name has at most 255 bytes.
_AFTER_ALL = b"\xff" * 256
#: Prefix of the cursors of a listing whose pages have spans. An earlier release fails to read it. Otherwise it would
#: continue, and treat the files of those pages as gone.
_SPANNED = "~"
_SLASH = ord("/")


def key_of(parts: Parts) -> bytes:
    """Return the key of a path."""
    return b"/".join(parts)


def printable(key: bytes) -> str:
    """Return the path of a key as text, with bytes that are not UTF-8 escaped."""
    return key.decode("utf-8", "backslashreplace")


def parts_of(key: bytes) -> Parts:
    """Return the path of a key. Raises `FileError` if it leads outside."""
    parts = tuple(key.split(b"/"))
    if b"\0" in key or not {b"", b".", b".."}.isdisjoint(parts):
        raise FileError(Reason.UNREADABLE)
    return parts


def parts_of_cursor(cursor: str | None) -> Parts:
    """Return the path before a cursor."""
    return _parts((cursor or "").removeprefix(_SPANNED).partition(_SPANNED)[0])


def _parts(encoded: str) -> Parts:
    return tuple(bytes.fromhex(encoded).split(b"/")) if encoded else ()


def page_end(cursor: str | None, last: Parts | None, *, is_whole: bool) -> tuple[str | None, Sequence[KeySpan] | None]:
    """Return the cursor after the page that follows a cursor, and the page's spans if the whole folder is listed.

    `last` is the last path of the page, or None if no page follows. A page that ends with a very long path has no
    spans. Its cursor then holds the start of the next page's spans.
    """
    is_spanned = cursor is None or cursor.startswith(_SPANNED)
    after = None if last is None else (_SPANNED if is_spanned else "") + key_of(last).hex()
    if not is_spanned or not is_whole:
        return after, None
    begin = (cursor or "").split(_SPANNED, 2)[-1]
    if last is not None and len(key_of(last)) > MAX_SPANNED_KEY:
        return f"{after}{_SPANNED}{begin}", None
    return after, spans_between(_parts(begin), last)


def spans_between(after: Parts, until: Parts | None) -> Sequence[KeySpan]:
    """Return the spans of keys that a listing has after `after` and its contents, up to `until` and its contents.

    Without parts they begin with the first key, and without `until` they end with the last one. There are none if
    `until` is below `after`, because the file has become a directory.
    """
    if after and until is not None and until[: len(after)] == after:
        return []
    bounds = _bounds(after) if after else frozenset[bytes]()
    bounds ^= {b"", _AFTER_ALL} if until is None else _bounds(until)
    ends = iter(sorted(bounds))
    return [*zip(ends, ends, strict=True)]


def _bounds(parts: Parts) -> frozenset[bytes]:
    """Return the bounds of the spans of keys that a listing has up to a path.

    They cover keys that sort before its key, except keys that share a part of the path and sort before the next slash.
    They also cover keys below another path that ends within one of its names.
    """
    key = key_of(parts)
    bounds = {b"", key + b"\0", key + b"/", key + b"0"}
    for place, byte in enumerate(key):
        if byte == _SLASH:
            bounds ^= {key[:place] + b"\0", key[:place] + b"/"}
        elif byte < _SLASH:
            bounds ^= {key[:place] + b"/", key[:place] + b"0"}
    return frozenset(bounds)
