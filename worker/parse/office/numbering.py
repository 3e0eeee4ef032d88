"""Counts the numbers of paragraphs in Word documents (ECMA-376, part 1, 17.9), which only `numbering.xml` describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

_VALUE = qn("w:val")
_PROPERTIES, _STYLE, _PARENT = qn("w:pPr"), qn("w:pStyle"), qn("w:basedOn")
_NUMBERED, _LIST_ID, _LEVEL = qn("w:numPr"), qn("w:numId"), qn("w:ilvl")
_ABSTRACT_ID = qn("w:abstractNumId")
#: Word's lists have this many levels.
_MAX_LEVELS = 9
#: The place of a level's number in the text of a number.
_PLACE = re.compile(r"%([1-9])")
_MAX_STYLES = 20
#: The list, and the level in it, from properties; each None if they do not state it.
_Stated = tuple[str | None, int | None]
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
#: Roman numbers beyond this are written in digits.
_MAX_ROMAN = 3999
_LETTERS = 26
#: Copies of a letter beyond which numbers are written in digits: after z comes aa, then bb.
_MAX_COPIES = 10
#: Text that is not counted: deleted paragraphs, and copies for programs that cannot draw a box.
_NOT_COUNTED = {qn("w:del"), "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}


@dataclass(frozen=True, slots=True)
class _ListLevel:
    start: int
    form: str
    text: str
    is_decimal: bool


@dataclass
class _List:
    """The levels of a list, and the latest number of each."""

    levels: dict[int, _ListLevel]
    numbers: list[int | None] = field(default_factory=lambda: [None] * _MAX_LEVELS)


class ParagraphNumbers:
    """The numbers of the paragraphs in a document's body, in their order.

    `styles` are the definitions of styles by their id. `root` is that of `numbering.xml`.
    """

    def __init__(self, root: Any, styles: Mapping[str, Any], body: Any) -> None:
        self._styles = styles
        self._places: dict[str, _Stated] = {}
        self._abstract = {e.get(_ABSTRACT_ID): e for e in root.iterchildren(qn("w:abstractNum"))}
        self._instances = {e.get(_LIST_ID): e for e in root.iterchildren(qn("w:num"))}
        self._lists: dict[str, _List] = {}
        self._restarted: set[str] = set()
        # most documents have no such text, and checking the ancestors of each paragraph takes longer
        self._are_all_counted = next(body.iter(*_NOT_COUNTED), None) is None

    def of(self, properties: Any) -> tuple[int, str] | None:
        """Return the level and number of the next paragraph with properties ("" for a bullet); None if not an item.

        Each item counts, so call this once for each paragraph. Without properties it is not an item.
        """
        name, level = self._place(properties)
        instance = self._instances.get(name or "")
        if instance is None:
            return None
        if not self._are_all_counted and any(each.tag in _NOT_COUNTED for each in properties.iterancestors()):
            return None
        items = self._list(_value(instance, _ABSTRACT_ID) or "")
        if items is None or level not in items.levels:
            return level, ""
        overrides = self._overrides(name or "", instance)
        return level, _counted(items, level, overrides)

    def _place(self, properties: Any) -> tuple[str | None, int]:
        """Return the list and the level that a paragraph names itself, or by its style or the style's parents."""
        name, level = _stated(properties)
        if not name or level is None:
            style_name, style_level = self._place_of_style(_value(properties, _STYLE) or "")
            name, level = name or style_name, style_level if level is None else level
        return name, min(level or 0, _MAX_LEVELS - 1)

    def _place_of_style(self, style_id: str) -> _Stated:
        """Return the list and the level of a style, each from the nearest parent that states it."""
        if style_id not in self._places:
            stated = list(map(_stated, self._properties_of_styles(style_id)))
            name = next((name for name, _ in stated if name), None)
            self._places[style_id] = name, next((level for _, level in stated if level is not None), None)
        return self._places[style_id]

    def _properties_of_styles(self, style_id: str) -> Iterator[Any]:
        """Yield the properties of paragraphs of a style and of its parents."""
        for _ in range(_MAX_STYLES):
            style = self._styles.get(style_id)
            if style is None:
                return
            properties = style.find(_PROPERTIES)
            if properties is not None:
                yield properties
            style_id = _value(style, _PARENT) or ""

    def _list(self, name: str) -> _List | None:
        if name not in self._lists and name in self._abstract:
            self._lists[name] = _List(_levels(self._defined(self._abstract[name])))
        return self._lists.get(name)

    def _defined(self, element: Any) -> Any:
        """Return the list that a list refers to by a style, else itself."""
        style = self._styles.get(_value(element, qn("w:numStyleLink")) or "")
        numbered = style.find(f"{_PROPERTIES}/{_NUMBERED}") if style is not None else None
        instance = self._instances.get(_value(numbered, _LIST_ID) or "") if numbered is not None else None
        return self._abstract.get(_value(instance, _ABSTRACT_ID) or "", element) if instance is not None else element

    def _overrides(self, name: str, instance: Any) -> dict[int, int]:
        """Return the numbers at which an instance of a list restarts its levels, once."""
        if name in self._restarted:
            return {}
        self._restarted.add(name)
        starts = ((e, _value(e, qn("w:startOverride"))) for e in instance.iterchildren(qn("w:lvlOverride")))
        return {_number(e.get(_LEVEL)) or 0: _number(start) or 0 for e, start in starts if start is not None}


def _levels(element: Any) -> dict[int, _ListLevel]:
    found = {}
    for level in element.iterchildren(qn("w:lvl")):
        start = _number(_value(level, qn("w:start")))
        found[_number(level.get(_LEVEL)) or 0] = _ListLevel(
            0 if start is None else start,
            _value(level, qn("w:numFmt")) or "decimal",
            _value(level, qn("w:lvlText")) or "",
            level.find(qn("w:isLgl")) is not None,
        )
    return found


def _counted(items: _List, level: int, overrides: dict[int, int]) -> str:
    for changed, start in overrides.items():
        if changed < _MAX_LEVELS:
            items.numbers[changed] = start - 1
    number = items.numbers[level]
    items.numbers[level] = items.levels[level].start if number is None else number + 1
    items.numbers[level + 1 :] = [None] * (_MAX_LEVELS - level - 1)
    shown = items.levels[level]
    if shown.form in ("bullet", "none"):
        return ""

    def written(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        of = items.levels.get(at, shown)
        number = items.numbers[at]
        form = "decimal" if shown.is_decimal else of.form
        return _FORMS.get(form, str)(of.start if number is None else number)

    return _PLACE.sub(written, shown.text).strip()


def _roman(number: int) -> str:
    if not 0 < number <= _MAX_ROMAN:
        return str(number)
    text = ""
    for value, sign in _ROMAN:
        text += sign * (number // value)
        number %= value
    return text


def _letter(number: int) -> str:
    copies, at = divmod(number - 1, _LETTERS)
    return chr(ord("a") + at) * (copies + 1) if 0 <= copies < _MAX_COPIES else str(number)


_FORMS: dict[str, Callable[[int], str]] = {
    "decimalZero": "{:02}".format,
    "lowerRoman": _roman,
    "upperRoman": lambda number: _roman(number).upper(),
    "lowerLetter": _letter,
    "upperLetter": lambda number: _letter(number).upper(),
    "none": lambda _: "",
}


def _stated(properties: Any) -> _Stated:
    """Return the list and the level that the properties themselves state."""
    numbered = next(properties.iterchildren(_NUMBERED), None)
    return (None, None) if numbered is None else (_value(numbered, _LIST_ID), _number(_value(numbered, _LEVEL)))


def _value(element: Any, tag: str) -> str | None:
    # `find` takes twice as long
    child = next(element.iterchildren(tag), None)
    value: str | None = child.get(_VALUE) if child is not None else None
    return value


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - 32 bits
