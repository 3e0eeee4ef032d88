"""Presentations by python-pptx: each slide's title as a heading, its text and tables, and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from pptx import Presentation

from schemas.document import Document
from worker.parse.blocks import heading, item, joined, laid_out, paragraph, table
from worker.parse.limits import Limits
from worker.parse.package import opened


def read(data: bytes, limits: Limits) -> Document:
    """The slides as Markdown, each a page. Raises `FileError` as `package.opened` does."""
    opened(data, limits, declarations=False).close()
    presentation = Presentation(BytesIO(data))
    slides = presentation.slides
    limits.check_pages(len(slides), "slides")
    text, pages = laid_out((joined(_slide(s, n, limits), limits) for n, s in enumerate(slides, 1)), limits)
    title = (presentation.core_properties.title or "").strip()
    return Document(text, "pptx", title=title or None, markup="markdown", pages=pages)


def _slide(slide: Any, number: int, limits: Limits) -> Iterator[str]:
    title = slide.shapes.title
    content = [block for block in _shapes(slide.shapes, title, limits) if block]
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    name = title.text_frame.text if title is not None else ""
    if name.strip() or content or notes:
        yield heading(1, name) or heading(1, f"Slide {number}")
    yield from content
    if notes is not None and notes.text.strip():
        yield "Notes: " + paragraph(notes.text)


def _shapes(shapes: Iterable[Any], title: Any, limits: Limits) -> Iterator[str]:
    for shape in shapes:
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes, title, limits)
        elif getattr(shape, "has_table", False):
            yield table(([cell.text for cell in row.cells] for row in shape.table.rows), limits)
        elif shape.has_text_frame:
            yield from _lines(shape.text_frame)


def _lines(frame: Any) -> Iterator[str]:
    """Several paragraphs of one shape are a list, as slides show them."""
    paragraphs = [p for p in frame.paragraphs if p.text.strip()]
    for one in paragraphs:
        yield item(one.level, one.text) if len(paragraphs) > 1 else paragraph(one.text)
