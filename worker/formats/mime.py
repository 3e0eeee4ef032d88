"""Detects MIME types: by the first bytes, then by whether the content is text, and only then by name."""

from __future__ import annotations

from worker.formats import by_name
from worker.formats.magic import any_kind_of

#: MIME types of files that are not plain text, by kind.
_BINARY = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpg": "image/jpeg",
    "gif": "image/gif",
    "tif": "image/tiff",
    "bmp": "image/bmp",
    "webp": "image/webp",
    "avif": "image/avif",
    "heic": "image/heic",
    "heif": "image/heif",
    "gz": "application/gzip",
    "bz2": "application/x-bzip2",
    "xz": "application/x-xz",
    "zst": "application/zstd",
    "7z": "application/x-7z-compressed",
    "rar": "application/vnd.rar",
    "so": "application/x-elf",
    "class": "application/java-vm",
    "wasm": "application/wasm",
    "sqlite": "application/vnd.sqlite3",
    "parquet": "application/vnd.apache.parquet",
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "avi": "video/x-msvideo",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
}
_OFFICE = "application/vnd.openxmlformats-officedocument"
#: Names of members that only one kind of ZIP container has.
_MEMBERS = {
    b"word/document.xml": f"{_OFFICE}.wordprocessingml.document",
    b"ppt/presentation.xml": f"{_OFFICE}.presentationml.presentation",
    b"xl/workbook.": f"{_OFFICE}.spreadsheetml.sheet",
    b"META-INF/MANIFEST.MF": "application/java-archive",
}

#: MIME types of text, by the type that its name or beginning suggests.
_TEXT = {
    "markdown": "text/markdown",
    "rst": "text/x-rst",
    "asciidoc": "text/asciidoc",
    "org": "text/org",
    "tex": "text/x-tex",
    "json": "application/json",
    "notebook": "application/x-ipynb+json",
    "jsonl": "application/jsonl",
    "yaml": "application/yaml",
    "toml": "application/toml",
    "csv": "text/csv",
    "html": "text/html",
    "xml": "application/xml",
    "email": "message/rfc822",
    "rtf": "application/rtf",
}
_CODE = {"javascript": "text/javascript", "css": "text/css", "html": "text/html"}
_BEGINNINGS = {b"<!doctype html": "html", b"<html": "html", b"<?xml": "xml", b"{\\rtf": "rtf"}

_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")
#: Bytes searched for a NUL, as in git.
_SAMPLE = 8000
#: Maximum characters in a MIME type.
_LONGEST_TYPE = 100
#: Bytes at the end of a ZIP file that are searched for member names: its central directory is there.
_TAIL = 1 << 20


def mime_of(name: str, data: bytes) -> tuple[str, bool]:
    """The MIME type of a file, and whether it is binary: not plain text by kind, or with a NUL byte."""
    found = _by_magic(data)
    if found:
        return found, True
    # UTF-16 without a byte order mark is text, but cannot be told cheaply from other data with zero bytes
    if b"\0" in data[:_SAMPLE] and not data.startswith(_BOMS):
        return "application/octet-stream", True
    return _of_text(name, data), False


def _by_magic(data: bytes) -> str | None:
    kind = any_kind_of(data)
    if kind == "zip":
        return _of_zip(data)
    if kind == "ole":
        return "application/msword" if "WordDocument".encode("utf-16-le") in data else "application/x-ole-storage"
    return _BINARY.get(kind or "")


def _of_zip(data: bytes) -> str:
    # OpenDocument and EPUB state their type in an uncompressed first member of that name
    size = int.from_bytes(data[22:26], "little")
    if data[30:38] == b"mimetype" and size <= _LONGEST_TYPE:
        said = data[38 : 38 + size]
        if said.isascii() and said.count(b"/") == 1:
            return said.decode().strip()
    return next((type_ for member, type_ in _MEMBERS.items() if member in data[-_TAIL:]), "application/zip")


def _of_text(name: str, data: bytes) -> str:
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    begun = next((type_ for beginning, type_ in _BEGINNINGS.items() if start.startswith(beginning)), None)
    format_, language = by_name.of(name)
    if begun and format_.type not in {"markdown", "code", "email", begun}:
        return _TEXT[begun] if not (begun == "xml" and b"<svg" in data[:_SAMPLE]) else "image/svg+xml"
    if format_.type == "xml" and b"<svg" in data[:_SAMPLE]:
        return "image/svg+xml"
    if format_.type == "code":
        return _CODE.get(language or "", "text/x-" + language if language else "text/plain")
    return _TEXT.get(format_.type, "text/plain")
