"""What stands on a page of a PDF without being of its text: values of forms, and comments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.text.markdown_blocks import comment, named

#: What has a look of its own with text in it, and what is beside the text or says the same as something else.
_DRAWN = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}
_SILENT = {raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP}
#: Fields with text, and lists to choose from.
_FILLED_IN = ("Tx", "Ch")
#: Annotations of a page that are looked at.
_MOST = 1000


def drawn(pdf: pypdfium2.PdfDocument, number: int, page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """The page with the values of forms and the like in its text."""
    if not any(raw.FPDFAnnot_GetSubtype(one) in _DRAWN for one in _all(page)):
        return page
    if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return page
    page.close()
    return pdf[number]


def beside(page: pypdfium2.PdfPage) -> list[str]:
    """Comments, and values that are not drawn; to be asked before `drawn`, which takes them away."""
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
