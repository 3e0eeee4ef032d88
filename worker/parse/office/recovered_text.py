"""Finds the text in a damaged compound file that no reader opens: documents, sheets and messages of old programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import olefile

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.limits import Limits

#: The library refuses a file with a truncated last sector, although it needs few of the sectors.
_SECTOR_BYTES = 4096
#: Text in one byte or in two a character. Names of fonts and styles, and numbers, are shorter.
_MIN_CHARACTERS = 40
_RUNS = re.compile(
    rb"(?:[\t\r\n\x20-\x7e\xa0-\xff]\0|[\0-\xff][\x01-\x05\x20]){%d,}|[\t\r\n\x20-\x7e\x91-\x97\xa0-\xff]{%d,}"
    % (_MIN_CHARACTERS, _MIN_CHARACTERS)
)
#: Minimum share of letters and spaces in text, and its minimum number of words.
_MIN_SHARE, _MIN_WORDS = 0.75, 6
_NOTE = "The file is damaged, and only the text that was found in it is indexed; save it again to find all."


def read_damaged(read: Callable[[bytes], Document], data: bytes, type_: str, limits: Limits) -> Document | None:
    """Recover the text of a file that its reader refused; None if it is not a compound file or has no text.

    Raises `FileError`: `too_large`.
    """
    if not data.startswith(olefile.MAGIC):
        return None
    filled = data.ljust((len(data) // _SECTOR_BYTES + 2) * _SECTOR_BYTES, b"\0")
    try:
        document = read(filled)
    except FileError as error:
        if error.reason in (Reason.TOO_LARGE, Reason.ENCRYPTED):
            raise
        document = Document("", type_)
    if not document.text.strip():
        document = Document("\n\n".join(_texts(data, limits)), type_)
    return replace(document, note=_NOTE) if document.text.strip() else None


def _texts(data: bytes, limits: Limits) -> list[str]:
    texts, size = list[str](), 0
    for run in _RUNS.findall(data):
        text = (
            run.decode("utf-16-le" if b"\0" in run else "cp1252", "replace").replace("\r\n", "\n").replace("\r", "\n")
        )
        size += len(text)
        limits.check_characters(size)
        if _is_text(text):
            texts.append(text.strip())
    return texts


def _is_text(text: str) -> bool:
    letters = sum(character.isalpha() or character.isspace() for character in text)
    return len(text.split()) >= _MIN_WORDS and letters >= _MIN_SHARE * len(text)
