"""Mends cells of sheets whose place, style or value is none, so that they and all others are read.

A sheet that still cannot be read has its cells alone, without links, merged cells, rules and the like.
"""

from __future__ import annotations

import re

from lxml import etree

#: What attributes of rows and cells must be like.
_ROW = re.compile(r"[1-9]\d{0,6}")
_CELL = re.compile(r"[A-Za-z]{1,3}[1-9]\d{0,6}")
_STYLE = re.compile(r"\d{1,5}")
#: What values must be like, by the types of cells.
_VALUES = {
    "n": re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?"),
    "s": re.compile(r"\d{1,9}"),
    "b": re.compile(r"[01]"),
    "d": re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?|\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"),
}
#: The type of a cell whose value is text.
_TEXT = "str"
#: Elements of a sheet with text, or that lead to parts with some.
_WITH_TEXT = {"sheetData", "headerFooter", "drawing", "legacyDrawing"}


def with_sound_cells(content: bytes, *, alone: bool = False) -> bytes:
    """A sheet without places and styles that are none; values that have not the type of their cell are texts.

    With `alone`, nothing but what has text is kept.
    """
    try:
        root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
    except (etree.XMLSyntaxError, ValueError):
        return content
    is_changed = False
    for element in list(root) if alone else ():
        if etree.QName(element).localname not in _WITH_TEXT:
            root.remove(element)
            is_changed = True
    for row in root.iter("{*}row"):
        is_changed |= _drop(row, "r", _ROW)
    for cell in root.iter("{*}c"):
        is_changed |= _drop(cell, "r", _CELL) | _drop(cell, "s", _STYLE) | _make_text(cell)
    made: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=True) if is_changed else content
    return made


def _drop(element: etree._Element, name: str, sound: re.Pattern[str]) -> bool:
    """Remove an attribute that is not as it must be. Returns whether it was there."""
    value = element.get(name)
    if value is None or sound.fullmatch(value):
        return False
    del element.attrib[name]
    return True


def _make_text(cell: etree._Element) -> bool:
    """Make a cell one with a text if its value has not its type. Returns whether it was not."""
    type_ = cell.get("t", "n")
    value = cell.findtext("{*}v")
    if not value or type_ not in _VALUES or _VALUES[type_].fullmatch(value.strip()):
        return False
    cell.set("t", _TEXT)
    return True
