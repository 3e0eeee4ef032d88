"""Spreadsheets by openpyxl: each sheet a heading and a table of its values; formulas as their last results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from io import BytesIO
from typing import Any

from openpyxl import load_workbook

from schemas.document import Document
from worker.parse.blocks import heading, joined, table
from worker.parse.limits import Limits
from worker.parse.package import opened


def read(data: bytes, limits: Limits) -> Document:
    """The sheets as Markdown. Raises `FileError` as `package.opened` does."""
    opened(data, limits, declarations=False).close()
    book = load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    try:
        limits.check_pages(len(book.worksheets), "sheets")
        text = joined(_sheets(book, limits), limits)
        title = (book.properties.title or "").strip()
    finally:
        book.close()
    return Document(text, "xlsx", title=title or None, markup="markdown")


def _sheets(book: Any, limits: Limits) -> Iterator[str]:
    for sheet in book.worksheets:
        # what a sheet says of its size is often wrong
        sheet.reset_dimensions()
        content = table(_rows(sheet), limits)
        if content:
            yield heading(1, sheet.title)
            yield content


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows(values_only=True):
        yield [_shown(value) for value in row]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)
