"""Reads e-books: the chapters in spine order (EPUB 3.3), each with the HTML reader."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from defusedxml.ElementTree import fromstring

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.office.mended import noted
from worker.parse.office.zip_container import member, open_container
from worker.parse.properties import dublin_core
from worker.parse.text.markdown_blocks import joined
from worker.parse.web import html

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_REFERENCE = "{http://www.w3.org/2001/04/xmlenc#}CipherReference"
#: Bytes at the end of a chapter that contain its closing tag.
_TAIL_BYTES = 4096
_MARKUP = ("application/xhtml+xml", "text/html")


def read(data: bytes, limits: Limits) -> Document:
    """Return the chapters as Markdown. Raises `FileError`: `encrypted` for a book with DRM, or as `open_container`."""
    with open_container(data, limits) as archive:
        container = fromstring(member(archive, "META-INF/container.xml"))
        rootfile = container.find(f".//{_CONTAINER}rootfile")
        path = rootfile.get("full-path", "") if rootfile is not None else ""
        # paths should be percent-encoded, but in many books they are not
        path = path if path in archive.namelist() else unquote(path)
        package = fromstring(member(archive, path))
        chapters = _chapters(package, posixpath.dirname(path))
        if not chapters:
            raise ValueError("the package lists no chapters")
        _refuse_locked(archive, chapters)
        limits.check_pages(len(chapters), "chapters")
        lost = list[str]()
        text = joined(_texts(archive, chapters, lost), limits)
    properties = dublin_core(package.find(f"{_PACKAGE}metadata"), undated="created")
    document = Document(text, "epub", title=properties.title or None, markup="markdown", properties=properties)
    return noted(document, lost)


def _chapters(package: Element, folder: str) -> list[str]:
    """Members with text in reading order, each once."""
    items = {i.get("id"): i for i in package.iter(f"{_PACKAGE}item") if i.get("media-type") in _MARKUP}
    references = [items.get(i.get("idref")) for i in package.iter(f"{_PACKAGE}itemref")]
    paths = [unquote(urlsplit(i.get("href", "")).path) for i in references if i is not None]
    return list(dict.fromkeys(posixpath.normpath(posixpath.join(folder, path)) for path in paths))


def _refuse_locked(archive: ZipFile, chapters: list[str]) -> None:
    """Refuse a book whose chapters are encrypted (DRM). Any book may have obfuscated fonts."""
    if "META-INF/encryption.xml" not in archive.namelist():
        return
    root = fromstring(archive.read("META-INF/encryption.xml"))
    scrambled = {unquote(reference.get("URI", "")) for reference in root.iter(_REFERENCE)}
    if not scrambled.isdisjoint(chapters):
        raise FileError(Reason.ENCRYPTED, "The book is protected by DRM; index an unprotected copy.")


def _texts(archive: ZipFile, chapters: list[str], lost: list[str]) -> Iterator[str]:
    """Yield the chapters that can be read, and add others and those that are cut to `lost`.

    If none can be read, raises the first chapter's error.
    """
    names = set(archive.namelist())
    read, failure = False, None
    for path in chapters:
        markup = archive.read(path) if path in names else b""
        if not markup.strip():
            lost += [path] if path in names else []
            continue
        try:
            is_whole = b"</html" in markup[-_TAIL_BYTES:].lower()
            try:
                page = decode(markup)
            except FileError:
                # a damaged disk or copy leaves zeros
                page, is_whole = decode(markup.replace(b"\0", b"")), False
            text = html.to_markdown(page)
        except FileError as error:
            failure = failure or error
            lost.append(path)
            continue
        if not is_whole:
            lost.append(path)
        read = True
        yield text
    if failure and not read:
        raise failure
