"""Document properties: title, author, description, keywords and dates, made short and comparable."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from datetime import date
from email.utils import parsedate_to_datetime
from xml.etree.ElementTree import Element

from schemas.content.document import NO_PROPERTIES, DocumentProperties

#: Maximum characters of a title, and of the other texts. Longer ones are cut.
MAX_TITLE_CHARS = 200
_MAX_CHARS = 1_000
#: Prefixes and placeholders that programs write as titles, and names of files.
_NO_TITLE = re.compile(
    r"(?:Microsoft (?:Office )?\w+ - "
    r"|(?:untitled(?: document| presentation)?|\(?anonymous\)?|PowerPoint Presentation|Word Document"
    r"|(?:Document|Presentation|Book|Slide) ?\d+)$)",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\S+\.(?:docx?|dotx?|fm|html?|indd|odt|p65|pdf|pptx?|ps|qxd|rtf|tex|txt|xlsx?)", re.IGNORECASE)
#: Year, month and day as ISO 8601 and PDF write them.
_DAY = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?|(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?![\d-])")

DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_CORE = "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}"
#: Properties by the elements that state them.
_ELEMENTS = {
    f"{DUBLIN_CORE}title": "title",
    f"{_META}initial-creator": "author",
    f"{DUBLIN_CORE}creator": "author",
    f"{DUBLIN_CORE}description": "description",
    f"{DUBLIN_CORE}subject": "keywords",
    f"{_META}keyword": "keywords",
    f"{_CORE}keywords": "keywords",
    f"{_CORE}category": "keywords",
    f"{_META}creation-date": "created",
    f"{_TERMS}created": "created",
    f"{_TERMS}modified": "modified",
}


def properties_of(
    title: str = "", author: str = "", description: str = "", keywords: str = "", created: str = "", modified: str = ""
) -> DocumentProperties:
    """Return the properties on one line each, cut to their maximum, with days in ISO 8601, without default titles."""
    if not (title or author or description or keywords or created or modified):
        return NO_PROPERTIES
    title = _NO_TITLE.sub("", _line(title))
    return DocumentProperties(
        "" if _FILE_NAME.fullmatch(title) else title[:MAX_TITLE_CHARS].rstrip(),
        *(_line(text)[:_MAX_CHARS].rstrip() for text in (author, description, keywords)),
        *map(_day, (created, modified)),
    )


def dublin_core(metadata: Element | None, undated: str) -> DocumentProperties:
    """Return the properties in an element's children, by the names of Dublin Core and of office programs.

    `undated` is the property for a date without a stated meaning.
    """
    stated: dict[str, list[str]] = defaultdict(list)
    for element in metadata.iter() if metadata is not None else ():
        name = element.get("property") or ""
        # EPUB 3 states some of them as `<meta property="dcterms:modified">`
        tag = f"{_TERMS}{name.removeprefix('dcterms:')}" if name.startswith("dcterms:") else element.tag
        property_ = undated if tag == f"{DUBLIN_CORE}date" else _ELEMENTS.get(tag)
        if property_ and (text := _line(element.text or "")) and text not in stated[property_]:
            stated[property_].append(text)
    one = ("title", "created", "modified")
    return properties_of(**{name: texts[0] if name in one else ", ".join(texts) for name, texts in stated.items()})


def of_pdf(metadata: dict[str, str]) -> DocumentProperties:
    """Return the properties in a PDF's information dictionary."""
    names = ("Title", "Author", "Subject", "Keywords", "CreationDate", "ModDate")
    return properties_of(*(metadata.get(name, "") for name in names))


def _line(text: str) -> str:
    return " ".join(text.split())


def _day(text: str) -> str:
    """Return the year, month or day that a text begins with or states in the form of e-mail; "" if it does neither."""
    if not text:
        return ""
    match = _DAY.match(text.strip())
    with suppress(ValueError, TypeError, OverflowError):
        if match is None:
            return parsedate_to_datetime(text).date().isoformat()
        parts = [part for part in match.groups() if part]
        date(*map(int, [*parts, "1", "1"][:3]))
        return "-".join(parts)
    return ""
