"""Reads the annotations of a PDF page: values of form fields, and comments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.text.markdown_blocks import comment, named

#: Kinds with an appearance of their own that contains text, and kinds without text of their own.
_WITH_APPEARANCE = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}
_WITHOUT_TEXT = {raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP}
#: Types of fields with text, and of lists to choose from.
_TEXT_FIELD_TYPES = ("Tx", "Ch")
#: Maximum annotations read per page.
_MAX_ANNOTATIONS = 1000


def flattened(pdf: pypdfium2.PdfDocument, number: int, page: pypdfium2.PdfPage) -> pypdfium2.PdfPage:
    """Merge form values and similar annotations into the page's text; return the page."""
    if not any(raw.FPDFAnnot_GetSubtype(annotation) in _WITH_APPEARANCE for annotation in _annotations(page)):
        return page
    if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return page
    page.close()
    return pdf[number]


def comments_and_values(page: pypdfium2.PdfPage) -> list[str]:
    """Comments, and values that are not drawn. Call this before `flattened`, which removes them."""
    return [line for annotation in _annotations(page) if (line := _line(annotation))]


def _line(annotation: Any) -> str:
    kind, is_drawn = raw.FPDFAnnot_GetSubtype(annotation), raw.FPDFAnnot_HasKey(annotation, b"AP")
    if kind in _WITHOUT_TEXT or (kind in _WITH_APPEARANCE and is_drawn):
        return ""
    if kind != raw.FPDF_ANNOT_WIDGET:
        return comment(_value(annotation, b"T"), _value(annotation, b"Contents"))
    if _value(annotation, b"FT") not in _TEXT_FIELD_TYPES:
        return ""
    return named(_value(annotation, b"T") or "Field", _value(annotation, b"V"))


def _annotations(page: pypdfium2.PdfPage) -> Iterator[Any]:
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if annotation:
            yield annotation
            raw.FPDFPage_CloseAnnot(annotation)


def _value(annotation: Any, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, key, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace")
