"""Repairs sheet cells with an invalid place, style or value, so that all cells are read."""

from __future__ import annotations

import re

from lxml import etree

#: Patterns of valid attributes of rows and cells.
_ROW = re.compile(r"[1-9]\d{0,6}")
_CELL = re.compile(r"[A-Za-z]{1,3}[1-9]\d{0,6}")
_STYLE = re.compile(r"\d{1,5}")
#: Patterns of valid values, by cell type.
_VALUES = {
    "n": re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?"),
    "s": re.compile(r"\d{1,9}"),
    "b": re.compile(r"[01]"),
    "d": re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?|\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"),
}
#: The type of a cell whose value is text.
_TEXT = "str"
#: Elements of a sheet with text, or with references to parts with text.
_WITH_TEXT = {"sheetData", "headerFooter", "drawing", "legacyDrawing"}


def with_sound_cells(content: bytes, *, alone: bool = False) -> bytes:
    """Remove invalid places and styles from a sheet, and turn values of the wrong type into texts.

    With `alone`, only elements with text are kept.
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
    """Remove an invalid attribute. Returns whether it was there."""
    value = element.get(name)
    if value is None or sound.fullmatch(value):
        return False
    del element.attrib[name]
    return True


def _make_text(cell: etree._Element) -> bool:
    """Turn a cell with a value of the wrong type into a text. Returns whether it did."""
    type_ = cell.get("t", "n")
    value = cell.findtext("{*}v")
    if not value or type_ not in _VALUES or _VALUES[type_].fullmatch(value.strip()):
        return False
    cell.set("t", _TEXT)
    return True
