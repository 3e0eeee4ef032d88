"""Reads the annotations of a PDF page: values of form fields, and comments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.bound import bound
from worker.parse.text.markdown_blocks import comment, named

#: Kinds with an appearance of their own that contains text, and kinds without text of their own.
_WITH_APPEARANCE = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}
_WITHOUT_TEXT = {raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP}
#: Types of fields with text, and of lists to choose from.
_TEXT_FIELDS = {raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}
_TEXT_FIELD_TYPES = ("Tx", "Ch")
#: Objects of an appearance that may show a value: text, a picture of it, or a form with it.
_DRAWN_TYPES = {raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM}
_MAX_OBJECTS = 100
#: Maximum annotations read per page.
_MAX_ANNOTATIONS = 1000

_annotation, _close = bound(raw.FPDFPage_GetAnnot), bound(raw.FPDFPage_CloseAnnot)
_kind = bound(raw.FPDFAnnot_GetSubtype)


def flatten(pdf: pypdfium2.PdfDocument, number: int, page: pypdfium2.PdfPage) -> tuple[pypdfium2.PdfPage, list[str]]:
    """Merge form values and similar annotations into the page's text.

    Return the page, and lines of comments and of values that are not drawn.
    """
    lines: list[str] = []
    is_merged = False
    for annotation in _annotations(page):
        kind = _kind(annotation)
        if kind in _WITHOUT_TEXT:
            continue
        is_merged = is_merged or kind in _WITH_APPEARANCE
        lines.append(_line(pdf.formenv, annotation, kind))
    if is_merged and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        page.close()
        page = pdf[number]
    return page, list(filter(None, lines))


def _line(form: Any, annotation: Any, kind: int) -> str:
    if kind in _WITH_APPEARANCE and _is_drawn(annotation, kind):
        return ""
    if kind != raw.FPDF_ANNOT_WIDGET:
        return comment(_value(annotation, b"T"), _value(annotation, b"Contents"))
    if form and raw.FPDFAnnot_GetFormFieldType(form, annotation) in _TEXT_FIELDS:
        # fields inherit their name and value
        name, value = (
            _string(partial(get, form, annotation))
            for get in (raw.FPDFAnnot_GetFormFieldName, raw.FPDFAnnot_GetFormFieldValue)
        )
        return named(name or "Field", value)
    if _value(annotation, b"FT") not in _TEXT_FIELD_TYPES:
        return ""
    return named(_value(annotation, b"T") or "Field", _value(annotation, b"V"))


def _is_drawn(annotation: Any, kind: int) -> bool:
    """Return whether the annotation's appearance shows its text. Programs leave it empty for some fields."""
    if not raw.FPDFAnnot_HasKey(annotation, b"AP"):
        return False
    count = min(raw.FPDFAnnot_GetObjectCount(annotation), _MAX_OBJECTS)
    objects = (raw.FPDFAnnot_GetObject(annotation, at) for at in range(count))
    return kind != raw.FPDF_ANNOT_WIDGET or any(raw.FPDFPageObj_GetType(each) in _DRAWN_TYPES for each in objects)


def _annotations(page: pypdfium2.PdfPage) -> Iterator[Any]:
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = _annotation(page.raw, index)
        if annotation:
            yield annotation
            _close(annotation)


def _value(annotation: Any, key: bytes) -> str:
    return _string(partial(raw.FPDFAnnot_GetStringValue, annotation, key))


def _string(get: Callable[[Any, int], int]) -> str:
    """Return the string that a PDFium function writes into a buffer; without one, it returns the needed size."""
    size = get(None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace")
