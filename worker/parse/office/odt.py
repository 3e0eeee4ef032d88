"""Reads OpenDocument texts, presentations and spreadsheets from their XML (OASIS OpenDocument 1.3, part 3).

Comments follow the paragraph, list or table they belong to. Page headers and footers come last.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from defusedxml.ElementTree import ParseError, fromstring

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.limits import Limits
from worker.parse.office.number_formats import both
from worker.parse.office.zip_container import member, open_container
from worker.parse.properties import DUBLIN_CORE, dublin_core
from worker.parse.text import ruby
from worker.parse.text.markdown import title_of
from worker.parse.text.markdown_blocks import (
    code,
    comment,
    edges,
    heading,
    item,
    joined,
    laid_out,
    named,
    paragraph,
    table,
    tables,
)
from worker.parse.xml import xml

_OASIS = "{urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE = f"{_OASIS}office:1.0}}"
_TEXT = f"{_OASIS}text:1.0}}"
_TABLE = f"{_OASIS}table:1.0}}"
_STYLE = f"{_OASIS}style:1.0}}"
_CHART = f"{_OASIS}chart:1.0}}"
_DRAW = f"{_OASIS}drawing:1.0}}"
_PRESENTATION = f"{_OASIS}presentation:1.0}}"
_SVG = f"{_OASIS}svg-compatible:1.0}}"
_MANIFEST = f"{_OASIS}manifest:1.0}}"
_HREF = "{http://www.w3.org/1999/xlink}href"

_ANNOTATION = f"{_OFFICE}annotation"
_DIAGRAM = f"{_CHART}chart"
#: Not part of the text: comments and charts, which are handled separately, deleted text, form fields, and a name that
#: every sheet inserts.
_LEFT_OUT = {_ANNOTATION, _DIAGRAM, f"{_OFFICE}forms"}
_LEFT_OUT |= {f"{_TEXT}{name}" for name in ("tracked-changes", "sequence-decls", "sheet-name")}
_MARKS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n", f"{_DRAW}text-box": "\n"}
#: The title and the description of a picture.
_MARKS |= dict.fromkeys((f"{_SVG}title", f"{_SVG}desc"), " ")
#: Marks around ruby text, and around the readings in it.
_AROUND = {f"{_TEXT}ruby": (ruby.BEGIN, ruby.END), f"{_TEXT}ruby-text": (ruby.READING, ruby.READ)}
_H = f"{_TEXT}h"
_P = f"{_TEXT}p"
_LIST = f"{_TEXT}list"
_TABLE_ELEMENT = f"{_TABLE}table"
_HEADER_FOOTER = {f"{_STYLE}{kind}{pages}": kind for kind in ("header", "footer") for pages in ("", "-left", "-first")}
#: Marks a table that belongs to a spreadsheet.
_OF_SHEETS = f"{_TABLE}of-sheets"
#: Marks a paragraph of code, and the names of code styles.
_IS_CODE = f"{_TEXT}is-code"
_CODE = re.compile(r"Preformatted(?:_20_Text)?|Source_20_Code|Code", re.IGNORECASE)
_NAME = f"{_STYLE}name"
_PARENT = f"{_STYLE}parent-style-name"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_ROW = f"{_TABLE}table-row"
_CELL = f"{_TABLE}table-cell"
_COVERED = f"{_TABLE}covered-table-cell"
_VALUE_TYPE = f"{_OFFICE}value-type"
#: Attributes with the value of a cell, by its type.
_STORED = {**dict.fromkeys(("float", "percentage", "currency"), f"{_OFFICE}value"), "date": f"{_OFFICE}date-value"}
#: A number that is shown as it is, or rounded.
_PLAIN = re.compile(r"-?\d+(?:[.,]\d+)?")
#: Maximum copies of equal adjacent cells or rows, which are stored once with a count: a hostile file may choose any.
_MAX_REPEATED = 1000
_MAX_SPACES = 100
#: Maximum cells along one side of a spreadsheet.
_MAX_CELLS = 1 << 20
#: Charts with more rows are left without a table, as nobody reads them point by point.
_MAX_POINTS = 100


def read(data: bytes, limits: Limits) -> Document:
    """Return the document as Markdown, with slides as pages. Raises `FileError` as `zip_container.open_container`."""
    with open_container(data, limits) as archive:
        names = set(archive.namelist())
        if "META-INF/manifest.xml" in names:
            _refuse_encrypted(archive.read("META-INF/manifest.xml"))
        root = fromstring(member(archive, "content.xml"))
        _insert_objects(root, archive, names)
        styles = fromstring(archive.read("styles.xml")) if "styles.xml" in names else None
        meta = fromstring(archive.read("meta.xml")) if "meta.xml" in names else None
    return _document("odt", root, styles, meta, limits)


def read_flat(data: bytes, limits: Limits) -> Document:
    """Return the document of a single XML text, which includes the members of a package."""
    try:
        root = fromstring(data)
    except ParseError as error:
        return xml.read_damaged(data, limits, error)
    return _document("fodt", root, root, root, limits)


def _document(type_: str, root: Element, styles: Element | None, meta: Element | None, limits: Limits) -> Document:
    _mark_code(root)
    body = root.find(f"{_OFFICE}body")
    kind = next(iter(body), None) if body is not None else None
    if kind is None:
        raise FileError(Reason.NO_TEXT)
    properties = dublin_core(None if meta is None else meta.find(f"{_OFFICE}meta"), undated="modified")
    if kind.tag == f"{_OFFICE}presentation":
        slides = kind.findall(f"{_DRAW}page")
        limits.check_pages(len(slides), "slides")
        text, pages = laid_out((joined(_slide(s, n, limits), limits) for n, s in enumerate(slides, 1)), limits)
        title = properties.title or title_of(text)
        return Document(text, type_, title=title, markup="markdown", pages=pages, properties=properties)
    sheets = kind.findall(_TABLE_ELEMENT) if kind.tag == f"{_OFFICE}spreadsheet" else []
    for sheet in sheets:
        sheet.set(_OF_SHEETS, "true")
    text = joined(chain(_blocks(kind, limits), _edges(styles)), limits)
    title = properties.title or (None if sheets else title_of(text))
    return Document(text, type_, title=title, markup="markdown", properties=properties)


def _mark_code(root: Element) -> None:
    """Mark the paragraphs that are code, judged by their style or its parent style."""
    styles = {style.get(_NAME): style.get(_PARENT, "") for style in root.iter(f"{_STYLE}style")}
    for element in root.iter(_P):
        name = element.get(f"{_TEXT}style-name", "")
        if _CODE.fullmatch(name) or _CODE.fullmatch(styles.get(name, "")):
            element.set(_IS_CODE, "true")


def _refuse_encrypted(manifest: bytes) -> None:
    if fromstring(manifest).find(f".//{_MANIFEST}encryption-data") is not None:
        raise FileError(Reason.ENCRYPTED)


def _insert_objects(root: Element, archive: ZipFile, names: set[str]) -> None:
    """Insert charts and formulas, which are separate members, where they are shown; each once."""
    for frame in root.iter(f"{_DRAW}object"):
        name = posixpath.normpath(f"{frame.get(_HREF, '')}/content.xml")
        if name in names:
            names.remove(name)
            content = fromstring(archive.read(name))
            frame.extend([_formula(content)] if content.tag == f"{_MATH}math" else list(content.iter(_DIAGRAM)))


def _formula(content: Element) -> Element:
    """Return a formula as its author typed it, else its text."""
    text = content.findtext(f".//{_MATH}annotation", "") or "".join(content.itertext())
    span = Element(f"{_TEXT}span")
    span.text = " ".join(text.split())
    return span


def _edges(styles: Element | None) -> Iterator[str]:
    """Yield the headers and footers of pages."""
    texts: dict[str, list[str]] = {"header": [], "footer": []}
    for element in styles.iter() if styles is not None else ():
        if element.tag in _HEADER_FOOTER and element.get(f"{_STYLE}display") != "false":
            texts[_HEADER_FOOTER[element.tag]].append(_text(element))
    for kind, lines in texts.items():
        yield from edges(kind, lines)


def _blocks(parent: Iterable[Element], limits: Limits) -> Iterator[str]:
    """Blocks in document order, also from inside grouping elements."""
    for element in parent:
        if element.tag in (_H, _P, _LIST, _TABLE_ELEMENT):
            yield from _block(element, limits)
            yield from _annotations(element, limits)
        elif element.tag == _ANNOTATION:
            yield _comment(element)
        elif element.tag == _DIAGRAM:
            yield from _chart(element, limits)
        elif element.tag not in _LEFT_OUT and element.tag != f"{_PRESENTATION}notes":
            yield from _blocks(element, limits)


def _block(element: Element, limits: Limits) -> Iterator[str]:
    if element.tag == _H:
        yield heading(_number(element, f"{_TEXT}outline-level", 6), _text(element))
    elif element.tag == _P:
        yield code(_text(element)) if element.get(_IS_CODE) else paragraph(_text(element))
    elif element.tag == _LIST:
        yield from _items(element, 0)
    else:
        yield from _sheet(element, limits)


def _annotations(element: Element, limits: Limits) -> Iterator[str]:
    """Comments and charts within a block. A sheet's charts are given without values, which its cells already hold."""
    is_sheet = element.tag == _TABLE_ELEMENT and _is_sheet(element)
    if is_sheet:
        yield from _cell_comments(element)
    else:
        yield from map(_comment, element.iter(_ANNOTATION))
    for chart in element.iter(_DIAGRAM):
        yield from _chart(chart, limits, values=not is_sheet)


def _comment(element: Element, cell: str = "") -> str:
    return comment(element.findtext(f"{DUBLIN_CORE}creator", ""), " ".join(map(_text, element.iter(_P))), cell)


def _cell_comments(sheet: Element) -> Iterator[str]:
    """Comments, with the cells they are attached to."""
    down = 1
    for row in _row_elements(sheet):
        across = 1
        for cell in row:
            for annotation in cell.findall(_ANNOTATION):
                yield _comment(annotation, f"{_column_name(across)}{down}")
            across += _number(cell, f"{_TABLE}number-columns-repeated", _MAX_CELLS)
        down += _number(row, f"{_TABLE}number-rows-repeated", _MAX_CELLS)


def _column_name(column: int) -> str:
    """Return the name of a column, counted from 1: A to Z, then AA."""
    name = ""
    while column:
        column, letter = divmod(column - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def _chart(element: Element, limits: Limits, *, values: bool = True) -> Iterator[str]:
    titles = [_text(title).strip() for title in element.iter(f"{_CHART}title")]
    yield named("Chart", "; ".join(filter(None, titles)))
    grid = element.find(_TABLE_ELEMENT)
    if values and grid is not None and sum(1 for _ in grid.iter(_ROW)) <= _MAX_POINTS:
        yield table(_rows(grid), limits)


def _slide(page: Element, number: int, limits: Limits) -> Iterator[str]:
    titles = [frame for frame in page if frame.get(f"{_PRESENTATION}class") == "title"]
    name = " ".join(_text(frame) for frame in titles)
    content = [b for b in _blocks([frame for frame in page if frame not in titles], limits) if b]
    notes = page.find(f"{_PRESENTATION}notes")
    speaker_notes = joined(_blocks(notes, limits), limits) if notes is not None else ""
    if name.strip() or content or speaker_notes:
        yield heading(1, name) or heading(1, f"Slide {number}")
    yield from content
    if speaker_notes:
        yield f"Notes: {speaker_notes}"


def _items(element: Element, depth: int) -> Iterator[str]:
    for entry in element:
        for child in entry:
            if child.tag == _LIST:
                yield from _items(child, depth + 1)
            elif child.tag == _H:
                yield heading(_number(child, f"{_TEXT}outline-level", 6), _text(child))
            else:
                yield item(depth, _text(child))


def _sheet(element: Element, limits: Limits) -> Iterator[str]:
    if not _is_sheet(element):
        yield table(_rows(element), limits)
        return
    content = list(tables(_rows(element), limits))
    # tables in a text have generated names, those of spreadsheets are chosen by people
    yield heading(1, element.get(f"{_TABLE}name", "") if content else "")
    yield from content


def _is_sheet(element: Element) -> bool:
    return element.get(_OF_SHEETS) is not None


def _rows(parent: Element) -> Iterator[list[str]]:
    for element in _row_elements(parent):
        row = [text for cell in element for text in _cell(cell)]
        for _ in range(_number(element, f"{_TABLE}number-rows-repeated", _MAX_REPEATED) if any(row) else 1):
            yield row


def _row_elements(parent: Element) -> Iterator[Element]:
    for element in parent:
        if element.tag == _ROW:
            yield element
        elif element.tag not in _LEFT_OUT:
            yield from _row_elements(element)


def _cell(element: Element) -> list[str]:
    if element.tag not in (_CELL, _COVERED):
        return []
    text = " ".join(_text(child) for child in element)
    kind = element.get(_VALUE_TYPE)
    text = _with_stored(text, element, kind) if kind in _STORED else text
    return [text] * _number(element, f"{_TABLE}number-columns-repeated", _MAX_REPEATED)


def _with_stored(text: str, cell: Element, kind: str) -> str:
    """Return the text of a cell as shown, with its value as stored if that differs by more than rounding."""
    stored = cell.get(_STORED[kind], "").removesuffix("T00:00:00")
    if not text.strip():
        return stored
    return text if not stored or _PLAIN.fullmatch(text.strip()) else both(stored, text)


def _text(element: Element) -> str:
    """Text of an element, including the text between and inside its spans. A note's text appears at its reference."""
    return ruby.behind_words(_with_readings(element))


def _with_readings(element: Element) -> str:
    if element.tag in _LEFT_OUT:
        return ""
    if element.tag == f"{_TEXT}s":
        return " " * _number(element, f"{_TEXT}c", _MAX_SPACES)
    parts = [_MARKS.get(element.tag, ""), element.text or ""]
    for child in element:
        parts += (_with_readings(child), "\n" if child.tag == _P else "", child.tail or "")
    if element.tag == f"{_TEXT}note-citation":
        return ""
    if element.tag in _AROUND:
        before, after = _AROUND[element.tag]
        return f"{before}{''.join(parts)}{after}"
    return f" ({''.join(parts).strip()})" if element.tag == f"{_TEXT}note" else "".join(parts)


def _number(element: Element, attribute: str, maximum: int) -> int:
    value = element.get(attribute, "1")
    return min(int(value), maximum) if value.isascii() and value.isdigit() else 1
