"""Reads Word documents with python-docx: the body in order, with headings, lists and tables as Markdown.

Comments and charts follow the paragraph or table they belong to. Footnotes, headers and footers come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import Any

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from schemas.content.document import Document
from worker.parse.limits import Limits
from worker.parse.office import drawing
from worker.parse.office.numbering import ParagraphNumbers
from worker.parse.office.transitional import transitional
from worker.parse.text import ruby
from worker.parse.text.markdown import title_of
from worker.parse.text.markdown_blocks import code, comment, edges, heading, item, joined, paragraph, table

_HEADING = re.compile(r"heading (\d)$", re.IGNORECASE)
#: Styles of code, in Word and in converters from HTML and Markdown.
_CODE = re.compile(r"(?:source )?code(?: ?block)?|html preformatted|preformatted(?: text)?", re.IGNORECASE)
_LIST = re.compile(r"list\b(?:.*? (\d)$)?", re.IGNORECASE)
#: Parts that hold text outside the body.
_NOTES = ("/footnotes", "/endnotes")
_HEADER_FOOTER = ("header", "footer")
#: Notes that are only the separator line above the notes.
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")

_P = qn("w:p")
_TBL = qn("w:tbl")
_TR = qn("w:tr")
_TC = qn("w:tc")
_T = qn("w:t")
_TAB = qn("w:tab")
_BR = qn("w:br")
_CR = qn("w:cr")
_HYPHEN = qn("w:noBreakHyphen")
_PROPERTIES, _STYLE, _OUTLINE = qn("w:pPr"), qn("w:pStyle"), qn("w:outlineLvl")
_NUMBERED = qn("w:numPr")
_DEPTH = f"{_NUMBERED}/{qn('w:ilvl')}"
_COLUMNS_BEFORE, _COLUMNS_SPANNED = f"{qn('w:trPr')}/{qn('w:gridBefore')}", f"{qn('w:tcPr')}/{qn('w:gridSpan')}"
_VALUE = qn("w:val")
_RUBY, _RUBY_TEXT, _RUBY_BASE = qn("w:ruby"), qn("w:rt"), qn("w:rubyBase")
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FORMULA = f"{_MATH}oMath"
_FORMULAS = f"{_MATH}oMathPara"
_BLOCKS = (_P, _TBL, _FORMULAS)
#: Maximum columns of a table in Word.
_MAX_COLUMNS = 63
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
#: Properties, fallbacks of drawn content, and text that tracked changes moved away or deleted.
_LEFT_OUT = frozenset((_PROPERTIES, qn("w:rPr"), qn("w:tcPr"), _FALLBACK, qn("w:moveFrom"), qn("w:del")))
_COMMENT_REFERENCE = qn("w:commentReference")
_ID = qn("w:id")
#: Attributes that give a paragraph its number, "" for a bullet, and its level.
_ITEM_NUMBER, _ITEM_LEVEL = "item-number", "item-level"
#: A picture's alternative text.
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"

#: Elements that wrap blocks, rows and cells.
_WRAPPERS = frozenset(qn(f"w:{name}") for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag"))
_MARKS = {_TAB: "\t", qn("w:ptab"): "\t", _BR: "\n", _CR: "\n", _HYPHEN: "-"}


def read(data: bytes, limits: Limits) -> Document:
    """Return the document as Markdown. Raises `FileError` as `zip_container.open_container` does."""
    data, properties = transitional(data, limits)
    document = docx.Document(BytesIO(data))
    styles = _Styles(document)
    _number_paragraphs(document, styles)
    text = joined(_blocks(document, styles, limits), limits)
    return Document(text, "docx", title=properties.title or title_of(text), markup="markdown", properties=properties)


def _blocks(document: Any, styles: _Styles, limits: Limits) -> Iterator[str]:
    body, part = document.element.body, document.part
    annotations = _annotations(part)
    for block in _within(body, _BLOCKS):
        yield _block(block, styles, limits)
        if annotations:
            yield from _annotations_of(block, annotations, limits)
    for (tag, _), element in annotations.items():
        # in a note, because their place is lost
        if tag == _COMMENT_REFERENCE:
            yield comment(element.get(qn("w:author"), ""), _text(element))
    for note in chain.from_iterable(_parts(part, *_NOTES)):
        if note.get(qn("w:type")) not in _SEPARATORS:
            yield from _content(note, styles, limits)
    for kind in _HEADER_FOOTER:
        yield from edges(kind, map(_text, _parts(part, f"/{kind}")))


def _number_paragraphs(document: Any, styles: _Styles) -> None:
    for relation in document.part.rels.values():
        # the library has parsed this part already
        root = None if relation.is_external else getattr(relation.target_part, "element", None)
        if root is None or not relation.reltype.endswith("/numbering"):
            continue
        numbers = ParagraphNumbers(root, styles.definitions, document.element.body)
        for properties in document.element.body.iter(_PROPERTIES):
            element = properties.getparent()
            place = numbers.of(properties) if element.tag == _P else None
            if place is not None:
                element.set(_ITEM_LEVEL, str(place[0]))
                element.set(_ITEM_NUMBER, place[1])


def _parts(part: Any, *kinds: str) -> Iterator[Any]:
    """Roots of the parts that a part refers to with a relation of one of the kinds."""
    for relation in part.rels.values():
        if not relation.is_external and relation.reltype.endswith(kinds):
            yield parse_xml(relation.target_part.blob)


#: Elements that refer to a drawing, and the kind of its part.
_DRAWN = ((drawing.CHART, "/chart"), (drawing.CHART_EX, "/chartEx"), (drawing.DIAGRAM, "/diagramData"))


def _annotations(part: Any) -> dict[tuple[str, str | None], Any]:
    """Comments, charts and diagrams, by the tag and the id that refer to them."""
    comments = chain.from_iterable(_parts(part, "/comments"))
    annotations: dict[tuple[str, str | None], Any] = {
        (_COMMENT_REFERENCE, element.get(_ID)): element for element in comments
    }
    for name, relation in part.rels.items():
        for tag, kind in _DRAWN:
            if not relation.is_external and relation.reltype.endswith(kind):
                annotations[tag, name] = relation.target_part.blob
    return annotations


def _annotations_of(block: Any, annotations: dict[tuple[str, str | None], Any], limits: Limits) -> Iterator[str]:
    """Yield the annotations of a block, each once: a drawing with a fallback is referenced twice."""
    for reference in block.iter(_COMMENT_REFERENCE, *drawing.REFERENCES):
        target = annotations.pop((reference.tag, reference.get(drawing.REFERENCES.get(reference.tag, _ID))), None)
        if reference.tag != _COMMENT_REFERENCE and target:
            yield from drawing.read(reference.tag, target, limits)
        elif target is not None:
            yield comment(target.get(qn("w:author"), ""), _text(target))


class _Styles:
    """The styles of a document: building python-docx's own objects of them would take longer than the rest."""

    def __init__(self, document: Any) -> None:
        definitions = document.styles.element.iterchildren(qn("w:style"))
        self.definitions = {style.get(qn("w:styleId")): style for style in definitions}
        self._kinds: dict[str, tuple[str, int]] = {}

    def kind(self, style_id: str) -> tuple[str, int]:
        """Return the kind of a style's paragraphs, as `_kind` does."""
        if style_id not in self._kinds:
            self._kinds[style_id] = _kind(self.definitions.get(style_id))
        return self._kinds[style_id]


def _kind(style: Any) -> tuple[str, int]:
    """("heading", level), ("list", depth), ("code", 0) or ("text", 0). Built-in names are English in every language."""
    named = style.find(qn("w:name")) if style is not None else None
    name = named.get(_VALUE, "") if named is not None else ""
    match = _HEADING.match(name)
    if match or name == "Title":
        return "heading", int(match[1]) if match else 1
    outline = style.find(f"{_PROPERTIES}/{_OUTLINE}") if style is not None else None
    if outline is not None and outline.get(_VALUE, "9") < "6":
        return "heading", int(outline.get(_VALUE)) + 1
    if _CODE.fullmatch(name):
        return "code", 0
    listed = _LIST.match(name)
    return ("list", int(listed[1] or 1) - 1) if listed else ("text", 0)


def _content(element: Any, styles: _Styles, limits: Limits) -> Iterator[str]:
    return (_block(block, styles, limits) for block in _within(element, _BLOCKS))


def _block(block: Any, styles: _Styles, limits: Limits) -> str:
    if block.tag == _FORMULAS:
        return paragraph(drawing.formula(block))
    return _paragraph(block, styles) if block.tag == _P else _table(block, styles, limits)


def _within(element: Any, tags: tuple[str, ...]) -> Iterator[Any]:
    """Children with one of the tags, also inside wrappers."""
    for child in element.iterchildren():
        if child.tag in tags:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _within(child, tags)


def _paragraph(element: Any, styles: _Styles) -> str:
    text = _text(element)
    properties = next(element.iterchildren(_PROPERTIES), None)
    if properties is None:
        return paragraph(text)
    # finding each separately takes longer
    style, outline, numbered = None, None, False
    for child in properties.iterchildren(_STYLE, _OUTLINE, _NUMBERED):
        tag = child.tag
        if tag == _STYLE:
            style = child if style is None else style
        elif tag == _OUTLINE:
            outline = child if outline is None else outline
        else:
            numbered = True
    kind, level = styles.kind(style.get(_VALUE, "") if style is not None else "")
    if kind == "text" and outline is not None and outline.get(_VALUE, "9") < "6":
        kind, level = "heading", int(outline.get(_VALUE)) + 1
    number = element.get(_ITEM_NUMBER, "")
    if kind == "heading":
        return heading(level, f"{number} {text}" if text.strip() else "")
    if kind == "code":
        return code(text)
    depth = properties.find(_DEPTH) if numbered else None
    if depth is not None:
        return item(int(depth.get(_VALUE, 0)), text, number)
    if kind == "list" or element.get(_ITEM_LEVEL):
        return item(level if kind == "list" else int(element.get(_ITEM_LEVEL)), text, number)
    return paragraph(text)


def _text(element: Any) -> str:
    """Text of a paragraph, including that of boxes anchored in it."""
    return ruby.behind_words(_with_readings(element))


def _with_readings(element: Any) -> str:
    parts: list[str] = []
    for child in element.iterchildren():
        tag = child.tag
        if tag == _T:
            parts.append(child.text or "")
        elif tag in _MARKS:
            parts.append(_MARKS[tag])
        elif tag == _FORMULA:
            parts.append(drawing.formula(child))
        elif tag == _PICTURE:
            parts.append(f" {drawing.described(child)} ")
        elif tag == _P:
            parts.append(f"{child.get(_ITEM_NUMBER, '')} {_with_readings(child)}\n".lstrip(" "))
        elif tag == _RUBY:
            above, base = ("".join(map(_with_readings, child.iterchildren(part))) for part in (_RUBY_TEXT, _RUBY_BASE))
            parts.append(ruby.annotated(base, above))
        elif tag not in _LEFT_OUT:
            parts.append(_with_readings(child))
    return "".join(parts)


def _table(element: Any, styles: _Styles, limits: Limits) -> str:
    rows = list(_within(element, (_TR,)))
    cells = list(_within(rows[0], (_TC,))) if len(rows) == 1 else []
    if len(cells) == 1:
        # a frame around text rather than a table
        return joined(_content(cells[0], styles, limits), limits)
    return table(map(_cells, rows), limits)


def _cells(row: Any) -> list[str]:
    """Return the cells of a row, one per column. A cell that spans several columns leaves the others empty."""
    texts = [""] * _columns(row.find(_COLUMNS_BEFORE), 0)
    for cell in _within(row, (_TC,)):
        texts += [_text(cell), *[""] * (_columns(cell.find(_COLUMNS_SPANNED), 1) - 1)]
    return texts


def _columns(element: Any, default: int) -> int:
    value = element.get(_VALUE, "") if element is not None else ""
    return min(int(value), _MAX_COLUMNS) if value.isascii() and value.isdigit() else default
