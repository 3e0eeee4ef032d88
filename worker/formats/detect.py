"""Detects a file's type by its name and content, once for all later steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats import by_name, disguised
from worker.formats.magic import OLE, ZIP, signature_of
from worker.formats.registry import BY_KIND, BY_TYPE, FORMATS, PACKAGE, Format, Signature
from worker.formats.unsupported import unsupported

#: Mail and web servers may put bytes before the header; readers find it within this many bytes.
_HEADER_WITHIN = 1024
#: The same for a PDF, and an object of one without its header.
PDF_HEADER_WITHIN = 1 << 16
_PDF_OBJECT = re.compile(rb"(?<!\d)\d{1,9} \d{1,5} obj\s{0,4}<<")
#: The first name in the directory of a compound file.
_DIRECTORY = "Root Entry".encode("utf-16-le")
#: Formats by their streams, whose names programs write in any case.
_STREAMS = [
    (re.compile(re.escape(format_.stream.encode("utf-16-le")), re.IGNORECASE), format_)
    for format_ in FORMATS
    if format_.stream
]
_SLIDES_STREAM = "PowerPoint Document".encode("utf-16-le")
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")

#: Bytes searched for the beginning of a markup language.
_BEGINNING_WITHIN_BYTES = 256
_BEGINNINGS = {beginning: format_ for format_ in FORMATS for beginning in format_.beginnings}
#: Bytes searched for the first two tags of XML, and the text between them.
_ROOT_WITHIN_BYTES = 8192
_ROOTS = [(re.compile(format_.root), format_) for format_ in (*FORMATS, PACKAGE) if format_.root]
_FIRST_TAGS, _COMMENT = re.compile(rb"(?:<[A-Za-z_][^<>]*>[^<>]*){1,2}"), re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
#: Formats whose name is more reliable than such a beginning: they may quote or contain markup.
_TRUSTED_NAMES = {"markdown", "code", "email"}

_MEMBERS = {format_.member.encode(): format_.mime for format_ in FORMATS if format_.member}
_MEMBERS[b"META-INF/MANIFEST.MF"] = "application/java-archive"
#: Documents in ZIP containers. Web servers may put bytes before these, too.
_PACKAGES = {format_.type for format_ in FORMATS if format_.member or format_.package_type}
_ZIP_HEAD = b"PK\3\4"
_MIME_OF_LANGUAGE = {"javascript": "text/javascript", "css": "text/css", "html": "text/html"}

_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")
#: Bytes searched for a NUL, as in git.
_NUL_WITHIN_BYTES = 8000
#: Maximum characters in a MIME type.
_MAX_MIME_CHARS = 100
#: Bytes at the end of a ZIP file that are searched for member names: its central directory is there.
_TAIL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Detected:
    """The detected format of a file, by its name and its content. Content takes precedence.

    `language` is the programming language, by the name alone. `is_binary` is set for files whose kind is not plain
    text, and for files with a NUL byte. `refusal` is the error for a name that is never read. `failure` is the error
    for content of a known kind that is not read.
    """

    name: str
    format: Format
    language: str | None
    mime: str
    is_binary: bool
    refusal: FileError | None = None
    failure: FileError | None = None


def detect(name: str, data: bytes) -> Detected:
    """Detect the format of a file by its name or path, and its content."""
    named, language = by_name.of(name)
    signature = signature_of(data)
    named = _by_root(data) if named.type == "xml" else named
    start = data[:_BEGINNING_WITHIN_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    mime, is_binary = _mime(named, language, signature, start, data)
    format_, failure = named, None
    try:
        format_ = _format(named, signature, start, data)
    except FileError as error:
        failure = error
    if format_ is not named and not is_binary and named.binary:
        mime = format_.mime
    return Detected(name, format_, language, mime, is_binary, refusal(name), failure)


def _by_root(data: bytes) -> Format:
    """Return the format of an XML file by the text up to the end of its second tag."""
    # in UTF-16, too
    head = _COMMENT.sub(b"", data[:_ROOT_WITHIN_BYTES].replace(b"\0", b""))
    tags = _FIRST_TAGS.search(head)
    head = head[: tags.end()] if tags else b""
    return next((format_ for root, format_ in _ROOTS if root.search(head)), BY_TYPE["xml"])


def refusal(name: str) -> FileError | None:
    """Return the error for a file that is refused by name alone, so that its bytes need not be read."""
    remedy = unsupported(name)
    return FileError(Reason.UNSUPPORTED_TYPE, remedy) if remedy else None


def _format(named: Format, signature: Signature | None, start: bytes, data: bytes) -> Format:
    if signature is ZIP:
        return PACKAGE
    if signature is OLE:
        return _ole_format(named, data)
    if signature and signature.kind in BY_KIND:
        return BY_KIND[signature.kind]
    return _text_format(named, data) if named.binary or _is_disguised(named, start) else named


def _is_disguised(named: Format, start: bytes) -> bool:
    """Return whether a file with the name of rich text or of a page begins as neither does."""
    return (named.type == "rtf" and not start.startswith(b"{\\rtf")) or (
        named.type == "html"
        and not start.startswith(b"<")
        and disguised.format_of_text(named, start) is BY_TYPE["email"]
    )


def _ole_format(named: Format, data: bytes) -> Format:
    """Return the format of an old office suite's compound file by its stream names. A truncated file may lack these."""
    if _ENCRYPTED_STREAM in data:
        raise FileError(Reason.ENCRYPTED)
    format_ = _format_by_stream(data)
    if format_ is None and named.stream and _DIRECTORY not in data:
        format_ = named
    if format_ is not None:
        return format_
    message = "The file is a document of a program that is not supported; save it as .docx, .xlsx, .pptx or .pdf."
    raise FileError(Reason.UNSUPPORTED_TYPE, message)


def _format_by_stream(data: bytes) -> Format | None:
    found = next((format_ for stream, format_ in _STREAMS if stream.search(data)), None)
    # slides contain the workbooks of their charts
    return None if found is BY_TYPE["xls"] and _SLIDES_STREAM in data else found


def _text_format(named: Format, data: bytes) -> Format:
    """Return the format of a file whose content contradicts its name: usually some kind of text."""
    if named.type == "pdf" and _is_pdf(data[:PDF_HEADER_WITHIN]):
        return named
    if named.type in _PACKAGES and begins_container(data):
        return PACKAGE
    return _format_of_text(named, data)


def _format_of_text(named: Format, data: bytes) -> Format:
    format_ = disguised.format_of_text(named, data) or BY_TYPE["text"]
    return _by_root(data) if format_.type == "xml" else format_


def begins_container(data: bytes) -> bool:
    """Return whether a ZIP container begins here or behind the bytes that a server may put before it."""
    return _ZIP_HEAD in data[:_HEADER_WITHIN]


def without_header(format_: Format, data: bytes) -> Format | None:
    """Return the format of the text that a damaged PDF without a header at its start may be; None for other files."""
    return _format_of_text(format_, data) if format_.type == "pdf" and signature_of(data) is None else None


def _is_pdf(head: bytes) -> bool:
    """Return whether a file that is called a PDF is one, behind other bytes or without its header."""
    return b"%PDF-" in head or (b"endobj" in head and _PDF_OBJECT.search(head) is not None)


def _markup_format(start: bytes) -> Format | None:
    return next((format_ for beginning, format_ in _BEGINNINGS.items() if start.startswith(beginning)), None)


def _mime(
    named: Format, language: str | None, signature: Signature | None, start: bytes, data: bytes
) -> tuple[str, bool]:
    """Return the MIME type, and whether the file is binary: by its first bytes, by text detection, then by its name."""
    if signature is ZIP:
        return _zip_mime(data), True
    if signature is OLE and (format_ := _format_by_stream(data)):
        return format_.mime, True
    if signature and signature.mime:
        return signature.mime, True
    # UTF-16 without a byte order mark is text, but cannot be told cheaply from other data with zero bytes
    if b"\0" in data[:_NUL_WITHIN_BYTES] and not data.startswith(_BOMS):
        return "application/octet-stream", True
    return _text_mime(named, language, start, data), False


def _zip_mime(data: bytes) -> str:
    # OpenDocument and EPUB state their type in an uncompressed first member of that name
    size = int.from_bytes(data[22:26], "little")
    if data[30:38] == b"mimetype" and size <= _MAX_MIME_CHARS:
        stated = data[38 : 38 + size]
        if stated.isascii() and stated.count(b"/") == 1:
            return stated.decode().strip()
    tail = data[-_TAIL_BYTES:]
    return next((mime for member, mime in _MEMBERS.items() if member in tail), "application/zip")


def _text_mime(named: Format, language: str | None, start: bytes, data: bytes) -> str:
    markup = _markup_format(start)
    format_ = markup if markup and named.type not in _TRUSTED_NAMES else named
    if format_.type == "xml" and b"<svg" in data[:_NUL_WITHIN_BYTES]:
        return "image/svg+xml"
    if language:
        return _MIME_OF_LANGUAGE.get(language, f"text/x-{language}")
    return "text/plain" if format_.binary else format_.mime
