"""Repairs documents in ZIP containers with damaged or missing parts, so that the other parts are read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from html import escape
from io import BytesIO
from itertools import chain
from urllib.parse import unquote
from zipfile import ZIP_STORED, ZipFile

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.wording import list_first
from worker.formats.registry import Format
from worker.parse import zip_members
from worker.parse.limits import Limits
from worker.parse.office import mended_relations
from worker.parse.office.mended_cells import with_sound_cells
from worker.parse.office.mended_relations import Contents
from worker.parse.office.recovered_xml import plain_text, sound
from worker.parse.text.markdown_blocks import joined, paragraph

#: Maximum number of parts that a message names.
_MAX_NAMED = 5
_XML = (".xml", ".rels", ".opf", ".ncx")
_PAGES = (".xhtml", ".html", ".htm")
_CONTAINER, _CONTENT, _MANIFEST = "META-INF/container.xml", "content.xml", "META-INF/manifest.xml"
#: Parts with text, by document type: parts that are always read, and parts in the order of their kinds.
_WITH_TEXT = {
    "docx": re.compile(
        r"word/(?:(?:document|header|footer|charts/chart|diagrams/data)\d*|footnotes|endnotes|comments)\.xml"
    ),
    "pptx": re.compile(
        r"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|comments/\w+|charts/chart\d*|diagrams/data\d*)\.xml"
    ),
    "xlsx": re.compile(
        r"xl/(?:sharedStrings|comments(?:\d*|/\w+)|threadedComments/\w+|drawings/drawing\d+|charts/chart\d*)\.xml"
    ),
    "odt": re.compile(r"(?:[^/]+/)?content\.xml"),
    "epub": re.compile(r".*\.x?html?"),
}
_WITHOUT_TEXT = re.compile(r"(?!)")
#: Parts that a reader needs besides those with text.
_NEEDED = re.compile(
    r"\[Content_Types\]\.xml|.*\.rels|ppt/presentation\.xml|xl/workbook\.xml|xl/worksheets/[^/]+\.xml|mimetype"
    r"|META-INF/container\.xml|.*\.opf"
)
#: The name for the missing end of a truncated container.
_END = "the end of the file"
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_DIGITS = re.compile(r"(\d+)")
#: Text that a book's list of chapters contains.
_ITEM = re.compile(rb"<(?:\w+:)?itemref[\s/>]")
_HREF = re.compile(r"""(?:href|full-path)\s*=\s*["']([^"']{1,500})["']""")

#: Types of packages whose parts have relations.
_OFFICE_XML = {"docx", "pptx", "xlsx", "xls"}
#: Extensions of files that list a container's contents.
LISTS = (".rels", _MANIFEST, ".opf")
#: Files that a list may name and a document does not need.
_UNNEEDED = ("Configurations2", "Thumbnails")

_OPEN_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{path}:1.0"'
    for name, path in (("office", "office"), ("text", "text"), ("draw", "drawing"))
)
_OPEN_NAMES += ' xmlns:xlink="http://www.w3.org/1999/xlink"'

Reader = Callable[[bytes, Limits], Document]


def unpack(data: bytes, max_bytes: int) -> tuple[Contents, list[str]]:
    """Return the readable content of each member, and the damaged names. Raises `FileError` and `TooMuchError`."""
    archive, is_cut = zip_members.open_zip(data, max_bytes)
    contents, lost = Contents(), [_END] if is_cut else []
    with archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.flag_bits & zip_members.IS_ENCRYPTED:
                raise FileError(Reason.ENCRYPTED)
            name = info.filename.replace("\\", "/").lstrip("/")
            content, is_whole = zip_members.read_what_is_left(data, archive, info, max_bytes)
            max_bytes -= len(content)
            if content or is_whole:
                contents[name] = content
            if not is_whole:
                lost.append(name)
    return contents, lost


def read_mended(
    contents: Contents, lost: list[str], format_: Format, reader: Reader, limits: Limits, failure: Exception
) -> Document:
    """Return the document of the readable parts, with a note of missing ones. Raises `failure` if it has no text."""
    lost = [*lost, *_recover(contents), *_complete(contents, format_)]
    for attempt in (contents, _with_text_alone(contents, format_)):
        try:
            document = reader(_packed(attempt), limits)
        except MemoryError:
            raise
        except FileError as error:
            if error.reason in (Reason.TOO_LARGE, Reason.ENCRYPTED):
                raise
        except Exception:  # noqa: BLE001, S112 - libraries raise all kinds of exceptions on what is left
            continue
        else:
            if document.text.strip():
                return _with_rest(document, contents, format_, lost, limits)
    text = joined(map(paragraph, _plain(contents, format_)), limits)
    if not text.strip():
        raise failure
    return noted(Document(text, format_.type, markup="markdown"), lost)


def noted(document: Document, lost: Iterable[str]) -> Document:
    """Return the document with a note that names the missing parts, if there are any."""
    names = list(dict.fromkeys(lost))
    if not names:
        return document
    note = f"Parts of the file are damaged or missing ({list_first(names, _MAX_NAMED)}); save it again to find all."
    return replace(document, note=" ".join(filter(None, (document.note, note))))


def check_relations(files: Contents, names: Collection[str], format_: Format) -> list[str]:
    """Return the missing targets of relations. `files` are the `LISTS` of the package.

    Raises `ValueError` if parts with text are lost because the relations to them are missing.
    """
    known = set(names)
    files = {path: content for path, content in files.items() if path.endswith(".rels")}
    lost = list(mended_relations.missing(known, sorted(files.items())))
    if format_.type in mended_relations.FAMILIES:
        mended_relations.check(files, names)
        is_suspect = lost or mended_relations.unrelated(files, names)
        if is_suspect and (unreached := _unreached(files, names, format_)):
            raise ValueError(f"no relation leads to {unreached[0]}")
    return lost


def _unreached(files: Contents, names: Collection[str], format_: Format) -> list[str]:
    """Return the parts with text that no relation refers to."""
    with_text = _WITH_TEXT.get(format_.type, _WITHOUT_TEXT)
    reached = mended_relations.reached(files, set(names))
    return sorted((name for name in names if with_text.fullmatch(name) and name not in reached), key=_natural)


def missing_files(files: Contents, names: Collection[str]) -> Iterator[str]:
    """Yield the files that the manifest of an OpenDocument or a book lists and the container lacks."""
    known = set(names)
    for path, content in files.items():
        if path == _MANIFEST:
            yield from _unlisted(content, "", known)
        elif path.endswith(".opf"):
            yield from _unlisted(content, posixpath.dirname(path), known)


def _unlisted(manifest: bytes, folder: str, names: Collection[str]) -> Iterator[str]:
    for found in _HREF.finditer(manifest.decode("utf-8", "replace")):
        path = found[1].partition("#")[0]
        if f"{folder}/{path}".lstrip("/") in names:
            continue
        paths = {posixpath.normpath(posixpath.join(folder, each)) for each in (path, unquote(path))}
        if (
            path
            and not path.endswith("/")
            and ":" not in path
            and not path.startswith(_UNNEEDED)
            and paths.isdisjoint(names)
        ):
            yield posixpath.normpath(posixpath.join(folder, unquote(path)))


def _recover(contents: Contents) -> list[str]:
    """Replace damaged XML by its readable part. Returns the names of the damaged parts."""
    lost = list[str]()
    for name, content in list(contents.items()):
        if not name.lower().endswith(_XML):
            continue
        recovered = sound(content)
        if recovered is None:
            del contents[name]
        else:
            contents[name] = recovered
        if recovered is not content and recovered != content:
            lost.append(name)
    return lost


def _complete(contents: Contents, format_: Format) -> list[str]:
    """Add missing parts that list other parts. Returns the names of missing parts."""
    if format_.type in _OFFICE_XML:
        contents.update({name: with_sound_cells(part) for name, part in contents.items() if _SHEET.fullmatch(name)})
        return mended_relations.mend(contents, format_)
    if format_.type == "odt":
        return _complete_text(contents)
    return _complete_book(contents) if format_.type == "epub" else []


def _complete_text(contents: Contents) -> list[str]:
    """Add the text of an OpenDocument without one, so that its objects, headers and footers are read."""
    if _CONTENT in contents:
        return []
    objects = sorted((posixpath.dirname(name) for name in contents if name.endswith(f"/{_CONTENT}")), key=_natural)
    frames = (f'<text:p><draw:object xlink:href="./{escape(name)}"/></text:p>' for name in objects)
    body = f"<office:body><office:text>{''.join(frames)}</office:text></office:body>"
    contents[_CONTENT] = f"<office:document-content {_OPEN_NAMES}>{body}</office:document-content>".encode()
    return [_CONTENT]


def _complete_book(contents: Contents) -> list[str]:
    lost = list[str]()
    listed = _HREF.search(contents.get(_CONTAINER, b"").decode("utf-8", "replace"))
    stated_name = unquote(listed[1]) if listed else "package.opf"
    package = next((name for name in contents if name.endswith(".opf")), stated_name)
    if not _ITEM.search(contents.get(package, b"")):
        lost.append(package)
        pages = sorted((name for name in contents if name.lower().endswith(_PAGES)), key=_natural)
        contents[package] = _package(pages, posixpath.dirname(package))
    stated = contents.get(_CONTAINER, b"").decode("utf-8", "replace")
    if package not in {unquote(found[1]) for found in _HREF.finditer(stated)}:
        lost += [] if _CONTAINER in contents else [_CONTAINER]
        root = f'<rootfile full-path="{escape(package)}" media-type="application/oebps-package+xml"/>'
        names = "urn:oasis:names:tc:opendocument:xmlns:container"
        contents[_CONTAINER] = f'<container xmlns="{names}"><rootfiles>{root}</rootfiles></container>'.encode()
    return lost


def _package(pages: list[str], folder: str) -> bytes:
    items = (
        f'<item id="p{number}" href="{escape(posixpath.relpath(page, folder))}" media-type="application/xhtml+xml"/>'
        for number, page in enumerate(pages)
    )
    references = (f'<itemref idref="p{number}"/>' for number in range(len(pages)))
    body = f"<manifest>{''.join(items)}</manifest><spine>{''.join(references)}</spine>"
    return f'<package xmlns="http://www.idpf.org/2007/opf">{body}</package>'.encode()


def _with_text_alone(contents: Contents, format_: Format) -> Contents:
    """Return the parts that a reader needs and those with text, without styles, settings and the like."""
    with_text = _WITH_TEXT.get(format_.type, _NEEDED)
    kept = {name: part for name, part in contents.items() if _NEEDED.fullmatch(name) or with_text.fullmatch(name)}
    _complete(kept, format_)
    kept.update({name: with_sound_cells(part, alone=True) for name, part in kept.items() if _SHEET.fullmatch(name)})
    return kept


def _packed(contents: Contents) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return made.getvalue()


def _with_rest(document: Document, contents: Contents, format_: Format, lost: list[str], limits: Limits) -> Document:
    """Return the document, followed by the text of parts that no relation refers to any more."""
    files = {name: content for name, content in contents.items() if name.endswith(".rels")}
    unreached = _unreached(files, contents, format_) if format_.type in _OFFICE_XML else []
    rest = (plain_text(contents[name]) for name in unreached)
    text = joined(chain([document.text], map(paragraph, rest)), limits)
    return noted(replace(document, text=text), chain(lost, (f"the relations to {name}" for name in unreached)))


def _plain(contents: Contents, format_: Format) -> Iterator[str]:
    """Yield the texts of the parts, without structure."""
    with_text = _WITH_TEXT.get(format_.type, _WITHOUT_TEXT)
    for name in sorted(
        (each for each in contents if with_text.fullmatch(each) or _SHEET.fullmatch(each)), key=_natural
    ):
        yield plain_text(contents[name], is_open_document=format_.type in ("odt", "epub"))


def _natural(name: str) -> list[tuple[int, str]]:
    """Return the key by which names are in the order of their numbers."""
    return [(int(part), "") if part.isdecimal() and len(part) < 10 else (0, part) for part in _DIGITS.split(name)]  # noqa: PLR2004
