"""Packs documents of Office that are one XML text as the ZIP container that their readers expect.

These are Flat OPC, in which Word and PowerPoint write all parts of a package one after the other, and Word's format of
2003, whose elements are those of today in another namespace.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from html import escape, unescape
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

from worker.parse.encodings import decode

_PART = re.compile(r"<(?:\w+:)?part\s([^<>]*)>")
_END_OF_PART = re.compile(r"</(?:\w+:)?part\s*>")
_ATTRIBUTE = re.compile(r"(?<!\w)(?:\w+:)?(name|contentType)\s*=\s*[\"']([^\"']*)[\"']")
_XML = re.compile(r"<(?:\w+:)?xmlData\b[^<>]*>")
_END_OF_XML = re.compile(r"</(?:\w+:)?xmlData\s*>\s*\Z")
_BINARY = re.compile(r"<(?:\w+:)?binaryData\b[^<>]*>([A-Za-z0-9+/=\s]*)")
#: Maximum bytes of a name in a container, and the characters of a longer one that a message shows.
_MAX_NAME_BYTES, _SHOWN = 65_535, 40
_TYPES, _MAIN, _STYLES = "[Content_Types].xml", "word/document.xml", "word/styles.xml"
_DEFAULTS = (
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
)

#: The root of Word's format of 2003, its namespace and the present one.
_ROOT_2003 = re.compile(r"<(/?)(\w+:)?wordDocument\b")
_WORD_2003, _WORD = (
    "http://schemas.microsoft.com/office/word/2003/wordml",
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
)
#: Elements around paragraphs, and pictures as letters.
_AROUND = re.compile(r"</?wx:(?:sect|sub-section)\b[^<>]*>|<(?:\w+:)?binData\b[^<>]*>[^<>]*</(?:\w+:)?binData>")
_STYLE = re.compile(r"<(?:\w+:)?style\b")
_END_OF_STYLE = re.compile(r"</(?:\w+:)?style>")
_WORD_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_OFFICE_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def packed(data: bytes) -> tuple[bytes, list[str]]:
    """Return the ZIP container of such a text, and the beginnings of names that are too long for one.

    The parts may be damaged. Raises what `encodings.decode` does.
    """
    text = decode(data)
    parts = dict(_parts_of_2003(text) if _ROOT_2003.search(text) else _parts(text))
    named = {name: content for name, content in parts.items() if len(name.encode()) <= _MAX_NAME_BYTES}
    made = BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as archive:
        for name, content in named.items():
            archive.writestr(name, content)
    return made.getvalue(), [f"{name[:_SHOWN]}…" for name in parts if name not in named]


def _parts(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each part, and the list of their types."""
    overrides = list[str]()
    at = 0
    while tag := _PART.search(text, at):
        end = _END_OF_PART.search(text, tag.end())
        at = end.end() if end else len(text)
        stated = {found[1]: unescape(found[2]) for found in _ATTRIBUTE.finditer(tag[1])}
        name = stated.get("name", "").lstrip("/")
        if name:
            overrides.append(_override(name, stated.get("contentType", "")))
            yield name, _content(text[tag.end() : end.start() if end else at])
    yield _TYPES, _types(overrides)


def _content(part: str) -> bytes:
    if start := _XML.search(part):
        return _END_OF_XML.sub("", part[start.end() :]).encode()
    letters = _BINARY.search(part)
    try:
        return b64decode(letters[1]) if letters else b""
    except ValueError:
        return b""


def _parts_of_2003(text: str) -> Iterator[tuple[str, bytes]]:
    text = _AROUND.sub("", _ROOT_2003.sub(r"<\1\2document", text).replace(_WORD_2003, _WORD))
    first = _STYLE.search(text)
    last = max((found.end() for found in _END_OF_STYLE.finditer(text)), default=0)
    styles = text[first.start() : last] if first and last > first.start() else ""
    types = (_override(_MAIN, f"{_WORD_TYPES}.document.main+xml"), _override(_STYLES, f"{_WORD_TYPES}.styles+xml"))
    yield _TYPES, _types(types)
    yield "_rels/.rels", _relations("officeDocument", _MAIN)
    yield "word/_rels/document.xml.rels", _relations("styles", "styles.xml")
    yield _MAIN, text.encode()
    yield _STYLES, f'<w:styles xmlns:w="{_WORD}" xmlns:wx="wx" xmlns:o="o" xmlns:v="v">{styles}</w:styles>'.encode()


def _override(name: str, type_: str) -> str:
    return f'<Override PartName="/{escape(name)}" ContentType="{escape(type_)}"/>'


def _types(overrides: list[str] | tuple[str, ...]) -> bytes:
    names = "http://schemas.openxmlformats.org/package/2006/content-types"
    return f'<Types xmlns="{names}">{_DEFAULTS}{"".join(overrides)}</Types>'.encode()


def _relations(kind: str, target: str) -> bytes:
    row = f'<Relationship Id="r1" Type="{_OFFICE_RELATIONS}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_RELATIONS}">{row}</Relationships>'.encode()
