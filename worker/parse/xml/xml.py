"""Reads XML as it is written, so that lines match the file and names of elements and attributes can be found.

References to characters become the characters, so that words with them can be found. In configuration and data the
names say as much as the text between them. Documents with little markup lose nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

from defusedxml import DefusedXmlException, EntitiesForbidden
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.encodings import decode
from worker.parse.limits import Limits

#: Characters searched for the document's title.
_TITLE_SEARCH_CHARS = 10_000
_TITLE = re.compile(r"<(?:\w+:)?title(?:\s[^<>]*)?>\s*([^<>]{1,500}?)\s*</(?:\w+:)?title>")

#: Data of a picture as letters, with the element that holds it.
_PICTURE = re.compile(r"<(?:\w+:)?binary(?:-data)?\b[^<>]*>[^<>]*")

#: A reference to a character outside ASCII. Others may be markup or white space.
_REFERENCE = re.compile(r"&#(?:x0*([0-9A-Fa-f]{2,6})|0*([0-9]{3,7}));")
_FIRST_FOREIGN, _LAST = 0xA0, 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
#: Maximum characters in an entity's value. Declared abbreviations are shorter, and cannot be made to expand.
_MAX_ENTITY_CHARS = 1000


class _Root(Exception):
    """Raised at the first element: entities are declared above it, and nothing below is parsed."""


class _UpToRoot:
    def start(self, _tag: str, _attributes: dict[str, str]) -> None:
        raise _Root


class _Parser(DefusedXMLParser):  # type: ignore[misc] # defusedxml has no types
    def defused_entity_decl(
        self, name: str, is_parameter_entity: bool, value: str | None, base: str, sysid: str, pubid: str, notation: str
    ) -> None:
        """Refuse external entities, and those that could expand: values with other entities, or long ones.

        What has a notation is data beside the text, such as a picture. It is named and never fetched.
        """
        if notation is not None:
            return
        if value is None or is_parameter_entity or len(value) > _MAX_ENTITY_CHARS or "&" in value or "%" in value:
            raise EntitiesForbidden(name, value, base, sysid, pubid, notation)

    def defused_unparsed_entity_decl(self, *_: str) -> None:
        """Accept the declaration of such data."""


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of an XML text. If it is not well-formed, it is still read as text.

    Raises what `encodings.decode` does, and `FileError` (`parse_failed`) for declarations that would harm later
    readers.
    """
    text = decode(data)
    if "<!ENTITY" in text:
        _refuse_harmful(text)
    text = _REFERENCE.sub(_character, text)
    title = _TITLE.search(text, 0, _TITLE_SEARCH_CHARS)
    return Document(text, "xml", "xml", unescape(title[1]) if title else None)


def read_damaged(data: bytes, limits: Limits, problem: object) -> Document:
    """Read XML with unreadable elements as other XML, without pictures. A note names the problem."""
    document = read(data, limits)
    note = f"Not well-formed XML ({problem}). It is read as plain text; repair it to find it by headings."
    return replace(document, text=_PICTURE.sub("", document.text), note=note)


def _character(reference: re.Match[str]) -> str:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return chr(code) if _FIRST_FOREIGN <= code <= _LAST and code not in _SURROGATES else reference[0]


def _refuse_harmful(text: str) -> None:
    try:
        _Parser(target=_UpToRoot(), forbid_entities=True).feed(text)
    except (_Root, ParseError):
        return
    except DefusedXmlException as refused:
        name = getattr(refused, "name", "")
        message = (
            f'The XML declares the entity "{name}", which expands too far or is external; '
            "remove its <!ENTITY> declarations, or rename it to .txt."
        )
        raise FileError(Reason.PARSE_FAILED, message) from None
