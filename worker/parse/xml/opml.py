"""Reads outlines (OPML): an entry with entries below it is a heading, or an item with items below it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from schemas.content.document import Document
from worker.parse.limits import Limits
from worker.parse.properties import properties_of
from worker.parse.text.markdown_blocks import heading, item, joined, paragraph
from worker.parse.xml import xml

#: Levels of entries that become headings. Those below are items.
_HEADINGS = 3
#: Maximum levels of entries that are walked.
_MAX_DEPTH = 200
#: Attributes with text, and with the addresses of an entry's target.
_NOTES = ("_note", "description")
_ADDRESSES = ("htmlUrl", "xmlUrl", "url")


def read(data: bytes, limits: Limits) -> Document:
    """Return the outline as Markdown. What is not well-formed, or declares entities, is read as other XML is."""
    try:
        root = fromstring(data)
    except ParseError as error:
        return xml.read_damaged(data, limits, error)
    except DefusedXmlException:
        return xml.read(data, limits)
    stated = {name: root.findtext(f"head/{name}", "") for name in ("title", "ownerName", "dateCreated", "dateModified")}
    properties = properties_of(
        title=stated["title"],
        author=stated["ownerName"],
        created=stated["dateCreated"],
        modified=stated["dateModified"],
    )
    body = root.find("body")
    text = joined(_entries(body if body is not None else root, 1), limits)
    if not text:
        return xml.read(data, limits)
    return Document(text, "opml", title=properties.title or None, markup="markdown", properties=properties)


def _entries(parent: Element, level: int) -> Iterator[str]:
    """Yield the entries below one, at a level from 1. Behind a heading, an entry at its level is one too."""
    is_headed = False
    for entry in parent.findall("outline") if level <= _MAX_DEPTH else ():
        text = entry.get("text") or entry.get("title") or ""
        addresses = dict.fromkeys(filter(None, map(entry.get, _ADDRESSES)))
        notes = [note for name in _NOTES if (note := entry.get(name, "")) and note != text]
        is_headed = is_headed or (level <= _HEADINGS and entry.find("outline") is not None)
        if is_headed:
            yield heading(level, text)
            yield paragraph("\n".join([*notes, *addresses]))
        else:
            yield item(max(0, level - _HEADINGS - 1), ": ".join(filter(None, (text, *notes, *addresses))))
        yield from _entries(entry, level + 1)
