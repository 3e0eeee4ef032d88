"""Reads what is on a PDF page beside its text: values of form fields, and comments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.text.markdown_blocks import comment, named

#: Kinds with an appearance of their own that contains text, and kinds without text of their own.
_DRAWN = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}
_SILENT = {raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP}
#: Types of fields with text, and of lists to choose from.
_FILLED_IN = ("Tx", "Ch")
#: Maximum annotations read per page.
_MOST = 1000


def drawn(pdf: pypdfium2.PdfDocument, number: int, page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """Merge form values and similar annotations into the page's text; return the page."""
    if not any(raw.FPDFAnnot_GetSubtype(one) in _DRAWN for one in _all(page)):
        return page
    if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return page
    page.close()
    return pdf[number]


def beside(page: pypdfium2.PdfPage) -> list[str]:
    """Comments, and values that are not drawn. Call this before `drawn`, which removes them."""
    return [line for one in _all(page) if (line := _line(one))]


def _line(one: Any) -> str:
    kind, is_drawn = raw.FPDFAnnot_GetSubtype(one), raw.FPDFAnnot_HasKey(one, b"AP")
    if kind in _SILENT or (kind in _DRAWN and is_drawn):
        return ""
    if kind != raw.FPDF_ANNOT_WIDGET:
        return comment(_value(one, b"T"), _value(one, b"Contents"))
    return named(_value(one, b"T") or "Field", _value(one, b"V")) if _value(one, b"FT") in _FILLED_IN else ""


def _all(page: pypdfium2.PdfPage) -> Iterator[Any]:
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST)):
        one = raw.FPDFPage_GetAnnot(page, at)
        if one:
            yield one
            raw.FPDFPage_CloseAnnot(one)


def _value(one: Any, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(one, key, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(one, key, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace")
