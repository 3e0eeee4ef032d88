"""Moves ruby text, the readings above characters, behind the annotated word."""

from __future__ import annotations

import re

#: Marks of the beginning of annotated text, of a reading's beginning and end, and of the end of annotated text.
#: No document shows these control characters.
BEGIN, READING, READ, END = "\x0e", "\x0f", "\x10", "\x11"

#: Invisible white space of the markup.
_UNSEEN = re.compile(f"(?<={BEGIN})\\s+|\\s+(?=[{READING}{END}])|(?<=[{READ}])\\s+(?=[\u2e80-\ud7ff\uf900-\ufaff])")
_READING = re.compile(f"{READING}([^{READING}{READ}]*){READ}")
_MARKS = re.compile(f"[{BEGIN}-{END}]")
_NO_LETTER = re.compile(f"[^\\w{BEGIN}-{END}]")


def reading(text: str) -> str:
    """Return a reading, to be written behind its base."""
    return f"{READING}{text}{READ}"


def annotated(base: str, above: str) -> str:
    """Return a base and its reading."""
    return f"{BEGIN}{base}{reading(above)}{END}"


def behind_words(text: str) -> str:
    """Return the text with all its readings behind the words, in brackets. Readings of neighbours become one."""
    if READING not in text:
        return _MARKS.sub("", text) if BEGIN in text else text
    pieces = _READING.split(_UNSEEN.sub("", text))
    parts, pending = [pieces[0]], list[str]()
    for above, below in zip(pieces[1::2], pieces[2::2], strict=True):
        _add(pending, above, is_apart=BEGIN in parts[-1].lstrip(BEGIN + END))
        sign = _NO_LETTER.search(below)
        if sign is None:
            parts.append(below)
            continue
        parts += [below[: sign.start()], _shown(pending), below[sign.start() :]]
        pending = []
    return _MARKS.sub("", "".join([*parts, _shown(pending)]))


def _add(pending: list[str], above: str, *, is_apart: bool) -> None:
    above = " ".join(_MARKS.sub("", above).split())
    if pending and not is_apart:
        pending[-1] += above
    else:
        pending.append(above)


def _shown(pending: list[str]) -> str:
    shown = " ".join(filter(None, pending))
    return f" ({shown})" if shown else ""
