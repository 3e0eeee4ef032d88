"""Checks JSON without rewriting it: the document is the text unchanged.

Comments and trailing commas are accepted, as in the settings of editors and compilers. Several values on separate lines
are JSON Lines, whatever the file's name. What is not well-formed is read as plain text, and a note says so.
"""

from __future__ import annotations

import json
import re

from schemas.content.document import Document
from schemas.content.jsonc import plain
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.encodings import decode
from worker.parse.limits import Limits

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)


class _NotJsonError(ValueError):
    """A constant that Python's parser accepts but RFC 8259 does not define."""


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a JSON text; if it is not well-formed, plain text with a note of line and column.

    Duplicate keys and escapes of lone surrogates are legal and stay unchanged. Raises `FileError` (`parse_failed`) if
    it is nested too deep, and the errors of `encodings.decode`.
    """
    text = decode(data)
    try:
        _check(text)
    except json.JSONDecodeError as error:
        if _is_of_lines(error):
            return Document(text, "jsonl", "json")
        if not _is_well_formed(plain(text)):
            return _as_text(text, error.lineno, error.colno, error.msg)
    except _NotJsonError as error:
        return _as_text(text, *_place_of_constant(text), f"{error} is not a JSON value")
    except RecursionError:
        message = "The JSON is nested too deep; flatten it, or rename it to .txt to index it as plain text."
        raise FileError(Reason.PARSE_FAILED, message) from None
    return Document(text, "json", "json", markup="json")


def _check(text: str) -> None:
    # build no numbers: Python rejects integers of more than 4,300 digits, JSON does not; build no objects either
    json.loads(text, object_pairs_hook=len, parse_int=len, parse_float=len, parse_constant=_refuse)


def _is_well_formed(text: str) -> bool:
    try:
        _check(text)
    except (json.JSONDecodeError, _NotJsonError):
        return False
    return True


def _is_of_lines(error: json.JSONDecodeError) -> bool:
    """Return whether the extra data is a second value at the start of a line."""
    before, after = error.doc[: error.pos], error.doc[error.pos : error.pos + 1]
    return error.msg == "Extra data" and after in '{["' and before.rstrip(" \t").endswith("\n")


def _refuse(constant: str) -> None:
    raise _NotJsonError(constant)


def _place_of_constant(text: str) -> tuple[int, int]:
    """Line and column, from 1, of the first invalid constant outside a string."""
    offset = next((match.start(1) for match in _CONSTANT.finditer(text) if match[1]), 0)
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _as_text(text: str, line: int, column: int, problem: str) -> Document:
    place = f"Not well-formed JSON at line {line}, column {column} ({problem})"
    return Document(text, "json", "json", note=f"{place}. It is read as plain text; repair it to find values by key.")
