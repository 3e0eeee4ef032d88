"""Detects PDF pages that are pictures, some with a line stamped on them by a court's program or a scanner."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

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


def is_scan(page: pypdfium2.PdfPage, text: str) -> bool:
    """Whether only a page's pictures hold its content. Invisible text means that it went through OCR already."""
    if len(text) > _MAX_STAMP_CHARS:
        return False
    if not text:
        return next(_objects(page, raw.FPDF_PAGEOBJ_IMAGE), None) is not None
    return _covered_share(page) >= _MIN_COVERED_SHARE and not any(
        map(_is_invisible, _objects(page, raw.FPDF_PAGEOBJ_TEXT))
    )


def without_text(page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """Remove the text objects of the page and return it."""
    for text in list(_objects(page, raw.FPDF_PAGEOBJ_TEXT)):
        page.remove_obj(text)
    return page


def are_stamps(texts: Collection[str]) -> bool:
    """Whether texts, one per page, are mere stamps: the same on all pages except for numbers."""
    return len(texts) > 1 and all(texts) and len({_NUMBER.sub("", text) for text in texts}) == 1


def _objects(page: pypdfium2.PdfPage, kind: int) -> Iterator[pypdfium2.PdfObject]:
    return (
        page_object
        for page_object in islice(page.get_objects(max_depth=_MAX_FORM_DEPTH), _MAX_PAGE_OBJECTS)
        if page_object.type == kind
    )


def _is_invisible(text: pypdfium2.PdfObject) -> bool:
    return bool(raw.FPDFTextObj_GetTextRenderMode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _covered_share(page: pypdfium2.PdfPage) -> float:
    """The share of a page that its pictures cover; more than 1 if they overlap."""
    width, height = page.get_size()
    return sum(map(_area, _objects(page, raw.FPDF_PAGEOBJ_IMAGE)), 0.0) / max(1.0, float(width * height))


def _area(picture: pypdfium2.PdfObject) -> float:
    while picture.container is not None:  # inside a form, bounds are relative to the form
        picture = picture.container
    left, bottom, right, top = picture.get_bounds()
    return float((right - left) * (top - bottom))
