"""OpenDocument texts, presentations and spreadsheets, read from their content.xml (OASIS OpenDocument 1.3, part 3)."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse.blocks import heading, item, joined, laid_out, paragraph, table
from worker.parse.limits import Limits
from worker.parse.package import member, opened

_OASIS = "{urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE, _TEXT, _TABLE = (f"{_OASIS}{name}:1.0}}" for name in ("office", "text", "table"))
_DRAW, _PRESENTATION = f"{_OASIS}drawing:1.0}}", f"{_OASIS}presentation:1.0}}"
_MANIFEST = f"{_OASIS}manifest:1.0}}"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"

#: Not of the text: comments, what was deleted, and the fields of forms.
_LEFT_OUT = {f"{_OFFICE}annotation", f"{_TEXT}tracked-changes", f"{_OFFICE}forms", f"{_TEXT}sequence-decls"}
_MARKS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_ROW, _CELL, _COVERED = f"{_TABLE}table-row", f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"
#: Equal cells or rows side by side are written once, with their number, which a hostile file may choose freely.
_MAX_REPEATED = 1000
_MAX_SPACES = 100


def read(data: bytes, limits: Limits) -> Document:
    """The document as Markdown; slides are pages. Raises `FileError` as `package.opened` does."""
    with opened(data, limits) as archive:
        names = set(archive.namelist())
        if "META-INF/manifest.xml" in names:
            _refuse_encrypted(archive.read("META-INF/manifest.xml"))
        root = fromstring(member(archive, "content.xml"))
        meta = fromstring(archive.read("meta.xml")) if "meta.xml" in names else None
    body = root.find(f"{_OFFICE}body")
    kind = next(iter(body), None) if body is not None else None
    if kind is None:
        raise FileError(Reason.NO_TEXT)
    title = ((meta.findtext(f".//{_TITLE}") if meta is not None else "") or "").strip() or None
    if kind.tag == f"{_OFFICE}presentation":
        slides = kind.findall(f"{_DRAW}page")
        limits.check_pages(len(slides), "slides")
        text, pages = laid_out((joined(_slide(s, n, limits), limits) for n, s in enumerate(slides, 1)), limits)
        return Document(text, "odt", title=title, markup="markdown", pages=pages)
    return Document(joined(_blocks(kind, limits), limits), "odt", title=title, markup="markdown")


def _refuse_encrypted(manifest: bytes) -> None:
    if fromstring(manifest).find(f".//{_MANIFEST}encryption-data") is not None:
        raise FileError(Reason.ENCRYPTED)


def _blocks(parent: Element, limits: Limits) -> Iterator[str]:
    """Blocks in document order, also from what only groups them."""
    for element in parent:
        if element.tag == f"{_TEXT}h":
            yield heading(_number(element, f"{_TEXT}outline-level", 6), _text(element))
        elif element.tag == f"{_TEXT}p":
            yield paragraph(_text(element))
        elif element.tag == f"{_TEXT}list":
            yield from _items(element, 0)
        elif element.tag == f"{_TABLE}table":
            yield from _sheet(element, limits)
        elif element.tag not in _LEFT_OUT and element.tag != f"{_PRESENTATION}notes":
            yield from _blocks(element, limits)


def _slide(page: Element, number: int, limits: Limits) -> Iterator[str]:
    titles = [frame for frame in page if frame.get(f"{_PRESENTATION}class") == "title"]
    name = " ".join(_text(frame) for frame in titles)
    content = [b for frame in page if frame not in titles for b in _blocks_of(frame, limits)]
    notes = page.find(f"{_PRESENTATION}notes")
    said = joined(_blocks(notes, limits), limits) if notes is not None else ""
    if name.strip() or content or said:
        yield heading(1, name) or heading(1, f"Slide {number}")
    yield from content
    if said:
        yield f"Notes: {said}"


def _blocks_of(frame: Element, limits: Limits) -> list[str]:
    if frame.tag == f"{_PRESENTATION}notes":
        return []
    return [block for block in _blocks(frame, limits) if block]


def _items(element: Element, depth: int) -> Iterator[str]:
    for entry in element:
        for child in entry:
            if child.tag == f"{_TEXT}list":
                yield from _items(child, depth + 1)
            else:
                yield item(depth, _text(child))


def _sheet(element: Element, limits: Limits) -> Iterator[str]:
    content = table(_rows(element), limits)
    # the tables of a text have made-up names, those of a spreadsheet are what people call them
    if content and element.get(f"{_TABLE}name") and _is_sheet(element):
        yield heading(1, element.get(f"{_TABLE}name", ""))
    yield content


def _is_sheet(element: Element) -> bool:
    return element.find(f".//{_CELL}[@{_OFFICE}value-type]") is not None


def _rows(parent: Element) -> Iterator[list[str]]:
    for element in parent:
        if element.tag == _ROW:
            row = [text for cell in element for text in _cell(cell)]
            for _ in range(_number(element, f"{_TABLE}number-rows-repeated", _MAX_REPEATED) if any(row) else 0):
                yield row
        elif element.tag not in _LEFT_OUT:
            yield from _rows(element)


def _cell(element: Element) -> list[str]:
    if element.tag not in (_CELL, _COVERED):
        return []
    text = " ".join(_text(child) for child in element)
    return [text] * _number(element, f"{_TABLE}number-columns-repeated", _MAX_REPEATED)


def _text(element: Element) -> str:
    """Text with what stands between and inside its spans; a note's text stands where it is referred to."""
    if element.tag in _LEFT_OUT:
        return ""
    if element.tag == f"{_TEXT}s":
        return " " * _number(element, f"{_TEXT}c", _MAX_SPACES)
    parts = [_MARKS.get(element.tag, ""), element.text or ""]
    for child in element:
        parts += (_text(child), child.tail or "")
    if element.tag == f"{_TEXT}note-citation":
        return ""
    return f" ({''.join(parts).strip()})" if element.tag == f"{_TEXT}note" else "".join(parts)


def _number(element: Element, attribute: str, most: int) -> int:
    value = element.get(attribute, "1")
    return min(int(value), most) if value.isascii() and value.isdigit() else 1
