"""Pages of a PDF that are pictures, some with a line that a program has printed on them: a court's, a scanner's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

import pypdfium2
from pypdfium2 import raw

#: Forms within forms in which pictures and text are looked for, and what is looked at of a page: some have millions.
_DEPTH, _MOST = 3, 20_000
#: Characters that may be printed on a scan, and the share of it that is picture at least.
_STAMP, _COVERED = 200, 0.5
_NUMBER = re.compile(r"\d+")


def is_scan(page: pypdfium2.PdfPage, text: str) -> bool:
    """Whether a page with this text shows what only its pictures hold; one that was read before has that as text."""
    if len(text) > _STAMP:
        return False
    if not text:
        return next(_objects(page, raw.FPDF_PAGEOBJ_IMAGE), None) is not None
    return _covered(page) >= _COVERED and not any(map(_is_invisible, _objects(page, raw.FPDF_PAGEOBJ_TEXT)))


def bare(page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """The page without its text, which it has lost."""
    for text in list(_objects(page, raw.FPDF_PAGEOBJ_TEXT)):
        page.remove_obj(text)
    return page


def are_stamps(texts: Collection[str]) -> bool:
    """Whether texts, one a page, say nothing of what is on their pages: they are the same on all but for numbers."""
    return len(texts) > 1 and all(texts) and len({_NUMBER.sub("", text) for text in texts}) == 1


def _objects(page: pypdfium2.PdfPage, kind: int) -> Iterator[pypdfium2.PdfObject]:
    return (one for one in islice(page.get_objects(max_depth=_DEPTH), _MOST) if one.type == kind)


def _is_invisible(text: pypdfium2.PdfObject) -> bool:
    return bool(raw.FPDFTextObj_GetTextRenderMode(text) == raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _covered(page: pypdfium2.PdfPage) -> float:
    """The share of a page that its pictures take, more than 1 where they lie on one another."""
    width, height = page.get_size()
    return sum(map(_area, _objects(page, raw.FPDF_PAGEOBJ_IMAGE)), 0.0) / max(1.0, float(width * height))


def _area(picture: pypdfium2.PdfObject) -> float:
    while picture.container is not None:  # within a form bounds are the form's own
        picture = picture.container
    left, bottom, right, top = picture.get_bounds()
    return float((right - left) * (top - bottom))
