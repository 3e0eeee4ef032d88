"""Reads spreadsheets with openpyxl: each sheet as a heading and a table of its values, formulas as cached results.

Comments and drawings follow their sheet's table; openpyxl does not read them in streaming mode. Page headers and
footers come last.
"""

from __future__ import annotations

import html
import re
from collections.abc import Container, Iterable, Iterator
from datetime import date, datetime, time
from io import BytesIO
from itertools import chain
from typing import Any
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from defusedxml.ElementTree import fromstring
from openpyxl.reader.excel import ExcelReader

from schemas.content.document import Document
from worker.parse.limits import Limits
from worker.parse.office import drawing
from worker.parse.office.number_formats import as_shown
from worker.parse.office.transitional import transitional
from worker.parse.office.zip_container import related
from worker.parse.text.markdown_blocks import comment, edges, heading, joined, named, paragraph, tables

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_SHEETS = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
#: Headers and footers of a sheet's pages, which are within this many bytes of its member's end.
_EDGE = re.compile(r"<(?:\w+:)?(?:odd|even|first)(Header|Footer)(?: [^<>]*)?>([^<]*)<")
_TAIL_BYTES = 1 << 16
#: Codes in them: the start of a section of the line, an escaped ampersand, and formatting or fields.
_CODE = re.compile(r'&(?:([LCR])|(&)|"[^"]*"|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|\d+|.?)', re.DOTALL)
#: Types of cells whose values have a format: numbers, and dates.
_FORMATTED = ("n", "d")
_THREADS = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"


def read(data: bytes, limits: Limits) -> Document:
    """Return the sheets as Markdown. Raises `FileError` as `zip_container.open_container` does."""
    data, properties = transitional(data, limits)
    with ZipFile(BytesIO(data)) as archive:
        book = _load(data)
        try:
            limits.check_pages(len(book.worksheets), "sheets")
            members, people = _members_and_people(archive)
            if not book.worksheets and not members:
                raise ValueError("the workbook lists no sheets")
            sheets = _sheets(book, archive, members, people, limits)
            text = joined(chain(sheets, _edges(archive, members.values())), limits)
        finally:
            book.close()
    return Document(text, "xlsx", title=properties.title or None, markup="markdown", properties=properties)


class _Strings(dict[int, str]):
    """The texts of a workbook by their numbers. A missing one leaves its cells empty."""

    def __missing__(self, number: int) -> str:
        return ""


class _Reader(ExcelReader):  # type: ignore[misc] # openpyxl has no types
    shared_strings: Any

    def read_strings(self) -> None:
        """Read the texts that cells refer to."""
        super().read_strings()
        self.shared_strings = _Strings(enumerate(self.shared_strings))


def _load(data: bytes) -> Any:
    reader = _Reader(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    # it fails on some chart sheets, and its result for the others is not used
    reader.read_chartsheet = lambda *_: None
    reader.read()
    return reader.wb


def _sheets(
    book: Any, archive: ZipFile, members: dict[str, str], people: dict[str, str], limits: Limits
) -> Iterator[str]:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    # sheets with only a chart are missing from `book`
    for title in [*members, *(title for title in sheets if title not in members)]:
        content = _content(sheets.get(title), limits)
        member = members.get(title)
        annotations = [block for block in _annotations(archive, member, people, limits) if block] if member else []
        if content or annotations:
            yield heading(1, title)
            yield from content
            yield from annotations


def _content(sheet: Any, limits: Limits) -> list[str]:
    if sheet is None:
        return []
    # the size that a sheet declares is often wrong
    sheet.reset_dimensions()
    return list(tables(_rows(sheet), limits))


def _members_and_people(archive: ZipFile) -> tuple[dict[str, str], dict[str, str]]:
    """Members of the sheets by title, and names of comment authors by id."""
    book = next((name for _, kind, name in related(archive, "") if kind == "officeDocument"), None)
    if book is None:
        return {}, {}
    members = {key: name for key, _, name in related(archive, book)}
    sheets = fromstring(archive.read(book)).iter(f"{_MAIN}sheet")
    lists = [fromstring(archive.read(name)) for _, kind, name in related(archive, book) if kind == "person"]
    people = {person.get("id", ""): person.get("displayName", "") for authors in lists for person in authors}
    return {s.get("name", ""): members[s.get(_ID, "")] for s in sheets if s.get(_ID, "") in members}, people


def _annotations(archive: ZipFile, sheet: str, people: dict[str, str], limits: Limits) -> Iterator[str]:
    """Blocks of the sheet's related members: comments on cells, then text boxes, then charts."""
    parts = {kind: name for _, kind, name in related(archive, sheet)}
    threads = fromstring(archive.read(parts["threadedComment"])) if "threadedComment" in parts else ()
    # for programs without threads, the first comment of each thread is repeated as a plain one
    threaded = {thread.get("ref") for thread in threads}
    if "comments" in parts:
        yield from _comments(fromstring(archive.read(parts["comments"])), threaded)
    for thread in threads:
        text = thread.findtext(f"{_THREADS}text", "")
        yield comment(people.get(thread.get("personId", ""), ""), text, thread.get("ref", ""))
    if "drawing" in parts:
        for element in fromstring(archive.read(parts["drawing"])).iter():
            if element.tag == f"{_SHEETS}txBody":
                yield paragraph(drawing.written(element))
            elif element.tag == f"{_SHEETS}cNvPr":
                yield named("Picture", drawing.described(element))
        for _, kind, name in related(archive, parts["drawing"]):
            if kind in ("chart", "chartEx"):
                # the chart's values are already in cells
                yield from drawing.chart(archive.read(name), limits, values=False)


def _comments(root: Element, left_out: Container[str | None]) -> Iterator[str]:
    authors = [author.text or "" for author in root.iter(f"{_MAIN}author")]
    for element in root.iter(f"{_MAIN}comment"):
        author_id, cell = element.get("authorId", ""), element.get("ref", "")
        author = authors[int(author_id)] if author_id.isdecimal() and int(author_id) < len(authors) else ""
        # phonetic guides for Chinese characters are not text of their own
        runs = [*element.iterfind(f"{_MAIN}text/{_MAIN}t"), *element.iterfind(f"{_MAIN}text/{_MAIN}r/{_MAIN}t")]
        if cell not in left_out:
            yield comment(author, "".join(run.text or "" for run in runs).removeprefix(f"{author}:"), cell)


def _edges(archive: ZipFile, sheets: Iterable[str]) -> Iterator[str]:
    texts: dict[str, list[str]] = {"header": [], "footer": []}
    for sheet in sheets:
        for kind, line in _EDGE.findall(_tail(archive, sheet)):
            plain = _CODE.sub(lambda code: " " if code[1] else code[2] or "", html.unescape(line))
            texts[kind.lower()].append(plain)
    for kind, lines in texts.items():
        yield from edges(kind, lines)


def _tail(archive: ZipFile, member: str) -> str:
    end = b""
    with archive.open(member) as stream:
        while chunk := stream.read(1 << 20):
            end = (end + chunk)[-_TAIL_BYTES:]
    return end.decode(errors="replace")


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        yield [_cell(cell) for cell in row]


def _cell(cell: Any) -> str:
    value = cell.value
    # most cells are text, which no format changes
    if value is None or value.__class__ is str or cell.data_type not in _FORMATTED or not cell.has_style:
        return shown(value)
    try:
        return as_shown(shown(value), value, cell.number_format)
    except LookupError:  # the styles are damaged
        return shown(value)


def shown(value: object) -> str:
    """Return the text of a cell's value."""
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
