"""Repairs the text that PDFium gives for Arabic and Persian, by the boxes of its characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

#: One glyph represents lam and alef. PDFium reverses a line's characters, including the two within such a glyph.
_REVERSED = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
#: Words of two directions without a blank. PDFium leaves out narrow gaps there. The words are of bounded length.
_LATIN, _ARABIC = "[A-Za-z0-9]", "[\u0620-\u065f\u0671-\u06d3]"
_CHANGE = re.compile(f"(?<={_LATIN})(?={_ARABIC})|(?<={_ARABIC})(?={_LATIN})")
_ANY_ARABIC = re.compile(_ARABIC)
#: The first bytes of U+0600 to U+06FF in UTF-8. No other characters have them.
_ARABIC_LEADS = range(0xD8, 0xDC)
_MAX_WORD = 40
_WORD = re.compile(f"{_LATIN}{{1,{_MAX_WORD}}}|{_ARABIC}{{1,{_MAX_WORD}}}")
#: Minimum gap between words, as a share of the line's height. Prefixes in front of a Latin word have none.
_MIN_GAP = 0.1


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


def repaired(layer: pypdfium2.PdfTextpage, text: str) -> str:
    """Return the text that was taken from `layer`, with lam before alef, and with blanks around Latin words."""
    # most files have none, and this search is ten times as fast as the others
    if not _may_be_arabic(text) or not _ANY_ARABIC.search(text):
        return text
    edits = [*_swaps(layer, text), *_blanks(layer, text)]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _may_be_arabic(text: str) -> bool:
    """Return whether a text has one of the first UTF-8 bytes of Arabic letters. A pattern takes much longer."""
    if text.isascii():
        return False
    encoded = text.encode("utf-8", "surrogatepass")
    return any(lead in encoded for lead in _ARABIC_LEADS)


def _swaps(layer: pypdfium2.PdfTextpage, text: str) -> Iterator[tuple[int, int, str]]:
    for pair in _REVERSED.finditer(text):
        first, second = _boxes(layer, text, *pair.span())
        if first is not None and first == second:
            yield *pair.span(), pair[0][::-1]


def _blanks(layer: pypdfium2.PdfTextpage, text: str) -> Iterator[tuple[int, int, str]]:
    for change in _CHANGE.finditer(text):
        at = change.start()
        before, after = _WORD.match(text[max(0, at - _MAX_WORD) : at][::-1]), _WORD.match(text, at)
        if before and after:
            first, second = _boxes(layer, text, at - before.end(), at), _boxes(layer, text, at, after.end())
            if _are_apart([*filter(None, first)], [*filter(None, second)]):
                yield at, at, " "


def _are_apart(first: list[_Box], second: list[_Box]) -> bool:
    """Return whether there is a gap between two words. Their ends in the text need not be their ends on the page."""
    if not first or not second:
        return False
    (left, right), (other_left, other_right) = (
        (min(box.left for box in word), max(box.right for box in word)) for word in (first, second)
    )
    return max(other_left - right, left - other_right) >= _MIN_GAP * (first[0].top - first[0].bottom)


def _boxes(layer: pypdfium2.PdfTextpage, text: str, start: int, end: int) -> list[_Box | None]:
    """Return the boxes of some characters of the text; None for one where the layer has another character."""
    indexes = ((at, raw.FPDFText_GetCharIndexFromTextIndex(layer, at)) for at in range(start, end))
    return [
        _Box(*layer.get_charbox(index, loose=True))
        if index >= 0 and raw.FPDFText_GetUnicode(layer, index) == ord(text[at])
        else None
        for at, index in indexes
    ]
