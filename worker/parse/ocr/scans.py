"""Detects PDF pages that must be read as pictures.

They are pictures, some with a line stamped on them by a court's program or a scanner. Or their letters are outlines, or
their text layer is not text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import accumulate, islice

import pypdfium2
from pypdfium2 import raw

#: Maximum levels of nested forms searched.
_MAX_FORM_DEPTH = 3
#: Maximum objects examined on a page. Some pages have millions.
_MAX_PAGE_OBJECTS = 20_000
#: Maximum characters in a stamp on a scan.
_MAX_STAMP_CHARS = 200
#: Minimum share of a scan that its pictures cover.
_MIN_COVERED_SHARE = 0.5
_NUMBER = re.compile(r"\d+")
#: Minimum segments of outlines on a page whose letters are outlines: a letter has ten or more, a ruled line has two.
_MIN_SEGMENTS = 100
#: Maximum share of invalid characters in a text layer. Fonts without a character map produce them.
_MAX_NON_TEXT_SHARE = 0.15
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x02, *b"\t\n\v\f\r"})
#: The first bytes in UTF-8 of invalid non-ASCII characters, and of others.
_NON_TEXT_LEADS = (0xC2, 0xEE, 0xEF)
_NON_TEXT = re.compile("[\0-\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")


def is_scan(page: pypdfium2.PdfPage, text: str) -> bool:
    """Return whether a page's content is only in its pictures. Invisible text means that it has been through OCR."""
    if is_illegible(text):
        return True
    if len(text) > _MAX_STAMP_CHARS:
        return False
    if not text:
        return next(_objects(page, raw.FPDF_PAGEOBJ_IMAGE), None) is not None or _has_outlines(page)
    return _covered_share(page) >= _MIN_COVERED_SHARE and not any(
        map(_is_invisible, _objects(page, raw.FPDF_PAGEOBJ_TEXT))
    )


def is_illegible(text: str) -> bool:
    """Return whether too many characters of a text layer are controls, private or replaced ones."""
    number = _non_text_count(text)
    return number > 0 and number > _MAX_NON_TEXT_SHARE * sum(map(len, text.split()))


def _non_text_count(text: str) -> int:
    # for most texts counting bytes is enough, and many times as fast as the pattern
    encoded = text.encode("utf-8", "surrogatepass")
    if text.isascii() or not any(lead in encoded for lead in _NON_TEXT_LEADS):
        return len(encoded) - len(encoded.translate(None, _CONTROLS))
    if "\ufffd" not in text and text.replace("\n", "").isprintable():
        return 0
    return len(_NON_TEXT.findall(text))


def without_text(page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """Remove the text objects of the page and return it."""
    for text in list(_objects(page, raw.FPDF_PAGEOBJ_TEXT)):
        page.remove_obj(text)
    return page


def are_stamps(texts: Collection[str]) -> bool:
    """Return whether texts, one per page, are mere stamps: equal on all pages except for numbers."""
    return len(texts) > 1 and all(texts) and len({_NUMBER.sub("", text) for text in texts}) == 1


def _objects(page: pypdfium2.PdfPage, kind: int) -> Iterator[pypdfium2.PdfObject]:
    return (
        page_object
        for page_object in islice(page.get_objects(max_depth=_MAX_FORM_DEPTH), _MAX_PAGE_OBJECTS)
        if page_object.type == kind
    )


def _has_outlines(page: pypdfium2.PdfPage) -> bool:
    segments = accumulate(map(raw.FPDFPath_CountSegments, _objects(page, raw.FPDF_PAGEOBJ_PATH)))
    return any(count >= _MIN_SEGMENTS for count in segments)


def _is_invisible(text: pypdfium2.PdfObject) -> bool:
    return bool(raw.FPDFTextObj_GetTextRenderMode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _covered_share(page: pypdfium2.PdfPage) -> float:
    """Return the share of a page that its pictures cover; more than 1 if they overlap."""
    width, height = page.get_size()
    return sum(map(_area, _objects(page, raw.FPDF_PAGEOBJ_IMAGE)), 0.0) / max(1.0, float(width * height))


def _area(picture: pypdfium2.PdfObject) -> float:
    while picture.container is not None:  # inside a form, bounds are relative to the form
        picture = picture.container
    left, bottom, right, top = picture.get_bounds()
    return float((right - left) * (top - bottom))
