"""Reads books and articles in XML as headed text: FictionBook 2, DocBook and JATS.

Their elements differ in name and agree in structure: sections with a title hold paragraphs, lists and tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from schemas.content.document import Document
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.properties import properties_of
from worker.parse.text import ruby
from worker.parse.text.markdown_blocks import code, heading, item, joined, paragraph, table
from worker.parse.xml import xml

_TITLES = {"title", "article-title", "book-title"}
_PARAGRAPHS = {
    "p",
    "para",
    "simpara",
    "v",
    "subtitle",
    "text-author",
    "term",
    "bridgehead",
    "caption",
    "mixed-citation",
}
_PARAGRAPHS |= {"element-citation", "kwd", "phrase", "attribution"}
_LISTS = {"itemizedlist", "orderedlist", "list", "simplelist", "procedure"}
_ITEMS = {"listitem", "list-item", "member", "step"}
_CODE = {"programlisting", "screen", "literallayout", "code", "preformat"}
_ROWS, _CELLS = {"row", "tr"}, {"entry", "td", "th"}
#: Elements without text of the work: pictures as letters, ids, and data for a library's catalogue.
_LEFT_OUT = {
    "binary",
    "indexterm",
    "remark",
    "journal-meta",
    "document-info",
    "permissions",
    "article-id",
    "custom-meta",
}
_LEFT_OUT |= {"article-categories", "history", "pub-date", "object-id", "counts", "publish-info", "stylesheet"}
#: Elements that form a level of headings; all others only group.
_SECTIONS = {"section", "sec", "chapter", "part", "appendix", "preface", "abstract", "ack", "ref-list", "glossary"}
_SECTIONS |= {*(f"sect{level}" for level in range(1, 6)), "simplesect", "poem", "stanza", "app", "fn-group"}
_PEOPLE = {"author", "contrib"}
_TABLES = {"table", "informaltable"}
#: Names of characters that HTML defines and XML does not.
_ENTITY = re.compile(r"&((?!(?:amp|lt|gt|quot|apos);)\w{1,40};)")
#: Marks around ruby text, and around the readings in it.
_AROUND = {"ruby": (ruby.BEGIN, ruby.END), "rt": (ruby.READING, ruby.READ)}
_MAX_LIST_LEVELS = 8
#: Maximum levels of elements that are walked. Real ones have some twenty.
_MAX_DEPTH = 200


def read_fb2(data: bytes, limits: Limits) -> Document:
    """Return the document of a FictionBook."""
    return _read(data, "fb2", limits)


def read_docbook(data: bytes, limits: Limits) -> Document:
    """Return the document of a DocBook."""
    return _read(data, "docbook", limits)


def read_jats(data: bytes, limits: Limits) -> Document:
    """Return the document of an article of a journal."""
    return _read(data, "jats", limits)


def _read(data: bytes, type_: str, limits: Limits) -> Document:
    """Return the work as Markdown. Malformed XML, or XML that declares entities, is read as other XML is."""
    try:
        root = fromstring(_ENTITY.sub(_character, decode(data)))
    except ParseError as error:
        return xml.read_damaged(data, limits, error)
    except DefusedXmlException:
        return xml.read(data, limits)
    if b"rt>" in data:
        _mark_readings(root)
    title = next((text for element in root.iter() if _name(element) in _TITLES and (text := _text(element))), "")
    text = joined(_blocks(root, 0, limits), limits)
    if not text:
        return xml.read(data, limits)
    properties = properties_of(title=title)
    return Document(text, type_, title=properties.title or None, markup="markdown", properties=properties)


def _character(entity: re.Match[str]) -> str:
    return html5.get(entity[1], entity[0])


def _blocks(element: Element, level: int, limits: Limits, depth: int = 0) -> Iterator[str]:
    """Blocks of an element's children in their order. `level` counts the sections around them."""
    if depth > _MAX_DEPTH:
        return
    level += _name(element) in _SECTIONS
    for child in element:
        name = _name(child)
        if name in _TITLES:
            yield heading(level + 1, _text(child))
        elif name in _PARAGRAPHS:
            yield paragraph(_text(child))
        elif name in _CODE:
            yield code("".join(child.itertext()))
        elif name in _LISTS:
            yield from _items(child, 0)
        elif name in _TABLES:
            yield from _table(child, limits)
        elif name in _PEOPLE:
            yield paragraph(" ".join(filter(None, (" ".join(text.split()) for text in child.itertext()))))
        elif name not in _LEFT_OUT:
            yield from _blocks(child, level, limits, depth + 1)


def _items(element: Element, depth: int) -> Iterator[str]:
    for entry in element:
        if _name(entry) not in _ITEMS:
            continue
        inner = [child for child in entry if _name(child) in _LISTS]
        if inner:
            yield item(depth, " ".join(filter(None, (_text(child) for child in entry if child not in inner))))
            for each in inner if depth < _MAX_LIST_LEVELS else ():
                yield from _items(each, depth + 1)
        else:
            yield item(depth, _text(entry))


def _table(element: Element, limits: Limits) -> Iterator[str]:
    for child in element:
        if _name(child) in _TITLES | _PARAGRAPHS:
            yield paragraph(_text(child))
    rows = ([_text(cell) for cell in row if _name(cell) in _CELLS] for row in element.iter() if _name(row) in _ROWS)
    yield table(rows, limits)


def _name(element: Element) -> str:
    """Return the name without its namespace."""
    return element.tag.rpartition("}")[2]


def _text(element: Element) -> str:
    return ruby.behind_words(" ".join("".join(element.itertext()).split()))


def _mark_readings(root: Element) -> None:
    """Write the marks of ruby text into the texts of elements."""
    for element in root.iter():
        before, after = _AROUND.get(_name(element), ("", ""))
        element.text = f"{before}{element.text or ''}" if before else element.text
        if after and len(element):
            element[-1].tail = f"{element[-1].tail or ''}{after}"
        elif after:
            element.text = f"{element.text}{after}"
