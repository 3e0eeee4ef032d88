"""Opens documents in ZIP containers with limits on their inflated size, and detects their kind by their members."""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from zipfile import BadZipFile, ZipFile, ZipInfo

from defusedxml.ElementTree import fromstring

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.detect import begins_container
from worker.formats.registry import BY_TYPE, FORMATS, Format, import_function
from worker.parse import flat_office, zip_members
from worker.parse.limits import Limits, too_large
from worker.parse.ocr.pictures import with_pictures
from worker.parse.office import mended
from worker.parse.office.mended_relations import relations_path

#: Signature of each entry in the central directory (PKWARE's APPNOTE, 4.3.12).
_ENTRY = b"PK\1\2"
_MAX_MEMBERS = 20_000
#: The beginning of a container that is one XML text, in any encoding.
_XML = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*<")
#: A container may inflate to more than this only if that is at most `_MAX_RATIO` times its own size.
_ALWAYS_ALLOWED_BYTES = 64 << 20
_MAX_RATIO = 200
_CHUNK_BYTES = 1 << 16
#: Office Open XML has no such declarations. Entities that refer to each other would expand without end.
_DECLARATIONS = (b"<!DOCTYPE", b"<!ENTITY")
#: Extensions of pictures, and of pictures of the document itself.
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
_PREVIEWS = {"docProps/thumbnail.jpeg", "Thumbnails/thumbnail.png"}
#: Members of each OpenDocument, and those of which each document of Office Open XML has at least one.
_OPEN_DOCUMENT = {"content.xml", "META-INF/manifest.xml"}
_OFFICE_XML = {"[Content_Types].xml", "_rels/.rels"}
_OFFICE_PART = re.compile(r"ppt/slides/slide\d+\.xml|xl/worksheets/sheet\d+\.xml")
#: Formats by the first folder of the member that they always have, and by the start of their stated type.
_BY_FOLDER = {format_.member.split("/")[0] + "/": format_ for format_ in FORMATS if format_.member}
_BY_PACKAGE_TYPE = {format_.package_type.encode(): format_ for format_ in FORMATS if format_.package_type}


def read(data: bytes, limits: Limits) -> Document:
    """Read the document in a container by its kind. Raises `FileError`: `unsupported_type` for other archives."""
    lost = list[str]()
    if _XML.match(data) and not begins_container(data):
        data, lost = flat_office.packed(data)
    try:
        lists = dict[str, bytes]()
        with open_container(data, limits, lists=lists) as archive:
            names = archive.namelist()
            format_ = _format(names, archive.read)
            unrelated = mended.check_relations(lists, names, format_)
            document: Document = import_function(format_.reader)(data, limits)
            document = mended.noted(document, [*lost, *unrelated, *mended.missing_files(lists, names)])
            return with_pictures(document, _pictures(names, archive.read), limits)
    except MemoryError:
        raise
    except FileError as failure:
        if failure.reason is not Reason.PARSE_FAILED:
            raise
        return _read_damaged(data, limits, failure, lost)
    except Exception as failure:  # noqa: BLE001 - libraries raise all kinds of exceptions on damaged files
        return _read_damaged(data, limits, failure, lost)


def _read_damaged(data: bytes, limits: Limits, failure: Exception, lost: list[str]) -> Document:
    """Return the document of the readable parts, where `lost` are missing. Raises `failure` if they have no text."""
    max_bytes, excess = _budget(data, limits)
    try:
        contents, damaged = mended.unpack(data, max_bytes)
    except zip_members.TooMuchError:
        raise excess from None
    except BadZipFile:
        raise failure from None
    if not contents:
        raise failure
    format_ = _format(contents, contents.__getitem__)
    document = mended.read_mended(
        contents, [*lost, *damaged], format_, import_function(format_.reader), limits, failure
    )
    return with_pictures(document, _pictures(contents, contents.__getitem__), limits)


def open_container(
    data: bytes, limits: Limits, *, declarations: bool = True, lists: dict[str, bytes] | None = None
) -> ZipFile:
    """Open the container after inflating and counting each member. Members that list others are added to `lists`.

    Unless `declarations` is set, its XML may not contain declarations. Raises `FileError`: `too_large` (a bomb),
    `encrypted`, `parse_failed`.
    """
    _check_members(data)
    archive, is_cut = zip_members.open_zip(data, _budget(data, limits)[0])
    if is_cut:
        raise BadZipFile("the end is missing")
    members = archive.infolist()
    if any(member.flag_bits & zip_members.IS_ENCRYPTED for member in members):
        raise FileError(Reason.ENCRYPTED)
    budget, excess = _budget(data, limits)
    if sum(member.file_size for member in members) > budget:
        raise excess
    for member in members:
        pieces = list[bytes]() if lists is not None and member.filename.endswith(mended.LISTS) else None
        budget -= _inflate(archive, member, budget, excess, pieces, declarations=declarations)
        if lists is not None and pieces is not None:
            lists[member.filename] = b"".join(pieces)
    return archive


def _budget(data: bytes, limits: Limits) -> tuple[int, FileError]:
    """Return the maximum inflated bytes of a container, and the error beyond that."""
    plausible_bytes = max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * len(data))
    excess = _bomb_error(plausible_bytes) if plausible_bytes < limits.memory_bytes else _memory_error(limits)
    return min(plausible_bytes, limits.memory_bytes), excess


def member(archive: ZipFile, name: str) -> bytes:
    """Return the bytes of a member. Raises `FileError` (`parse_failed`) if it is missing."""
    try:
        return archive.read(name)
    except KeyError:
        raise FileError(Reason.PARSE_FAILED, f"The document is damaged: {name} is missing; save it again.") from None


def related(archive: ZipFile, name: str) -> Iterator[tuple[str, str, str]]:
    """Id, kind and name of each member that the member `name` of an Office Open XML container refers to."""
    folder, path = posixpath.dirname(name), relations_path(name)
    members = set(archive.namelist())
    for relation in fromstring(archive.read(path)) if path in members else ():
        target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
        if relation.get("TargetMode") != "External" and target in members:
            yield relation.get("Id", ""), relation.get("Type", "").rpartition("/")[2], target


def _format(names: Collection[str], read_member: Callable[[str], bytes]) -> Format:
    if "mimetype" in names:
        media = read_member("mimetype")[:100].strip()
        for start, format_ in _BY_PACKAGE_TYPE.items():
            if media.startswith(start):
                return format_
    if "META-INF/container.xml" in names or any(name.endswith(".opf") for name in names):
        return BY_TYPE["epub"]
    if set(names) >= _OPEN_DOCUMENT:
        return BY_TYPE["odt"]
    exact = next((format_ for format_ in FORMATS if format_.member in names), None)
    if exact:
        return exact
    # programs write the list of types first or last
    if not _OFFICE_XML.isdisjoint(names) or any(map(_OFFICE_PART.fullmatch, names)):
        for folder, format_ in _BY_FOLDER.items():
            if any(name.startswith(folder) for name in names):
                return format_
    raise _unsupported(names)


def _unsupported(names: Collection[str]) -> FileError:
    """Return the error for a container without a readable document."""
    if any(name.endswith(".iwa") for name in names):
        # .key is also the ending of keys, which are text
        message = (
            "Files of Pages, Numbers and Keynote are not supported; export the file as .docx, .xlsx, .pptx or .pdf."
        )
        return FileError(Reason.UNSUPPORTED_TYPE, message)
    if any(name.startswith("visio/") for name in names):
        return FileError(Reason.UNSUPPORTED_TYPE, "Diagrams of Visio are not supported; export the file as .pdf.")
    return FileError(Reason.UNSUPPORTED_TYPE, "Archives are not supported; extract the archive and index its files.")


def _pictures(members: Collection[str], read_member: Callable[[str], bytes]) -> Iterator[bytes]:
    """Yield the pictures of a document, in the order of their names, which programs number."""
    names = [name for name in members if name.lower().endswith(_PICTURES) and name not in _PREVIEWS]
    for name in sorted(names, key=lambda name: (len(name), name)):
        yield read_member(name)


def _check_members(data: bytes) -> None:
    """Refuse very many members before objects are created for them; the declared count may be wrong."""
    if data.count(_ENTRY) > _MAX_MEMBERS:
        message = f"The file contains more than {_MAX_MEMBERS:,} entries; extract it or split it."
        raise FileError(Reason.TOO_LARGE, message)


def _inflate(
    archive: ZipFile, info: ZipInfo, budget: int, excess: FileError, pieces: list[bytes] | None, *, declarations: bool
) -> int:
    """Inflated bytes of a member, counted piece by piece: its declared size may be wrong. `pieces` receive them."""
    size, tail = 0, b""
    is_checked = not declarations and info.filename.endswith((".xml", ".rels"))
    try:
        with archive.open(info) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                if is_checked:
                    tail = _tail_without_declarations(info, tail + chunk)
                size += len(chunk)
                if size > budget:
                    raise excess
                if pieces is not None:
                    pieces.append(chunk)
    except (zlib.error, EOFError) as error:
        raise BadZipFile(f"{info.filename} cannot be decompressed") from error
    return size


def _tail_without_declarations(info: ZipInfo, chunk: bytes) -> bytes:
    """Return the end of the piece, where a declaration may start. Raises `FileError` if the piece contains one."""
    if any(mark in chunk for mark in _DECLARATIONS):
        message = f"{info.filename} declares XML entities, which Office documents never need; save it again."
        raise FileError(Reason.PARSE_FAILED, message)
    return chunk[1 - max(map(len, _DECLARATIONS)) :]


def _bomb_error(max_bytes: int) -> FileError:
    message = f"The file would decompress to more than {max_bytes >> 20:,} MB; save it again, or split it."
    return FileError(Reason.TOO_LARGE, message)


def _memory_error(limits: Limits) -> FileError:
    return too_large(f"The file would decompress to more than PARSE_MEMORY_MB ({limits.memory_bytes >> 20:,} MB)")
