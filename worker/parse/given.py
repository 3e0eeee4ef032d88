"""Answers requests for parts of a file that need no document: plain text and JSON values."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable

from schemas.content.jsonc import is_by_hand, plain
from schemas.errors import FileError, NotFound
from schemas.reason import Reason
from worker.formats.secrets import is_secret, without_keys
from worker.parse.data.json_pointer import span
from worker.parse.limits import Limits
from worker.sandbox.protocol import Head

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Answered = tuple[Head, bytes]


def texts(ask: Head, data: bytes, _limits: Limits) -> Answered:
    """Return each text as UTF-8 without its byte order mark, and its size in bytes; None where bytes are not text.

    Private keys are left out of a file that has a name here. A file that is only a secret gives None, too.
    """
    decoded, start = list[bytes | None](), 0
    for size, name in zip(ask["sizes"], ask["names"], strict=True):
        given = data[start : start + size]
        text = _utf8(given)
        if name is not None and text is not None:
            text = None if is_secret(name, given) else without_keys(text.decode()).encode()
        decoded.append(text)
        start += size
    return {"sizes": [None if one is None else len(one) for one in decoded]}, b"".join(one or b"" for one in decoded)


def _utf8(data: bytes) -> bytes | None:
    """Text as UTF-8 without its byte order mark. None if it has a NUL, or is neither UTF-8 nor marked UTF-16."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        decoded = data.decode("utf-16" if wide else "utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in decoded:
        return None
    return decoded.encode(errors="replace") if wide else data.removeprefix(codecs.BOM_UTF8)


def value(ask: Head, data: bytes, _limits: Limits) -> Answered:
    """Return the range of characters of the value at a pointer, or the reason why it is absent."""
    document = data.decode()
    try:
        start, end = span(plain(document) if is_by_hand(document) else document, ask["pointer"])
    except NotFound as error:
        return {"absent": error.message}, b""
    except (ValueError, IndexError, RecursionError):
        return {"absent": "The file is not well-formed JSON, so it has no pointers; request lines."}, b""
    return {"start": start, "end": end}, b""


def secret(ask: Head, data: bytes, _limits: Limits) -> Answered:
    """Return whether a file is only a secret."""
    return {"secret": is_secret(ask["name"], data)}, b""


def json_text(ask: Head, data: bytes, _limits: Limits) -> Answered:
    """Return a value as `json.dumps(indent=2, ensure_ascii=False)` writes it, in UTF-8.

    A lone surrogate, which JSON can express and UTF-8 cannot, becomes U+FFFD. Raises `FileError`: `too_large` above the
    limit, `parse_failed` for numbers and nesting that Python cannot read.
    """
    limit = ask["limit"]
    try:
        pieces = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(data))
        written = _LONE_SURROGATE.sub("\ufffd", _joined(pieces, limit)).encode()
    except (ValueError, RecursionError) as error:
        raise FileError(
            Reason.PARSE_FAILED, f"The JSON cannot be read ({error}); correct it and index again."
        ) from error
    if len(written) > limit:
        raise FileError(Reason.TOO_LARGE)
    return {}, written


def _joined(pieces: Iterable[str], limit: int) -> str:
    # Indentation can multiply a deep document's size a thousandfold, so check the size while writing.
    parts, length = list[str](), 0
    for piece in pieces:
        parts.append(piece)
        length += len(piece)
        if length > limit:
            raise FileError(Reason.TOO_LARGE)
    return "".join(parts)
