"""Detects a file's kind by its first bytes, regardless of its name. A kind is the extension such files usually have."""

from __future__ import annotations

import re

#: Number of first bytes that are examined.
HEAD = 64

#: First bytes that are unique to one kind, for files that hold no text.
_FIRST = {
    b"\x7fELF": "so",
    b"\xfe\xed\xfa\xce": "dylib",
    b"\xfe\xed\xfa\xcf": "dylib",
    b"\xce\xfa\xed\xfe": "dylib",
    b"\xcf\xfa\xed\xfe": "dylib",
    b"\xca\xfe\xba\xbe": "class",
    b"\0asm": "wasm",
    b"!<arch>\ndebian": "deb",
    b"!<arch>\n": "a",
    b"\xed\xab\xee\xdb": "rpm",
    b"OggS\0": "ogg",
    b"fLaC\0": "flac",
    b"\xff\xfb": "mp3",
    b"\xff\xf3": "mp3",
    b"MThd\0\0\0\6": "mid",
    b"\x1aE\xdf\xa3": "mkv",
    b"FLV\1": "flv",
    b"0&\xb2u\x8ef\xcf\x11": "wmv",
    b"\0\0\1\xba": "mpg",
    b"\0\0\1\xb3": "mpg",
    b"\0\1\0\0\0": "ttf",
    b"OTTO\0": "otf",
    b"ttcf\0": "ttc",
    b"wOFF\0": "woff",
    b"wOFF\1": "woff",
    b"wOF2\0": "woff2",
}
#: The same for documents, pictures and archives. "ole" is the container of old office documents and other files.
_FIRST_OF_OTHERS = {
    b"%PDF-": "pdf",
    b"{\\rtf": "rtf",
    b"PK\3\4": "zip",
    b"PK\5\6": "zip",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "ole",
    b"\x89PNG": "png",
    b"\xff\xd8\xff": "jpg",
    b"II*\0": "tif",
    b"MM\0*": "tif",
    b"\x1f\x8b": "gz",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"SQLite format 3\0": "sqlite",
    b"PAR1\x15": "parquet",
}
#: The first block, or the end marker of an empty file. The letters alone might begin a text.
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
#: Its sizes and flags contain a byte that no text has.
_GIF = re.compile(rb"GIF8[79]a.{0,6}[\0-\x08\x0e-\x1f]", re.DOTALL)
#: Kinds inside generic containers, by the bytes from offset 8.
_WITHIN = {
    b"RIFF": {b"WAVE": "wav", b"AVI ": "avi"},
    b"FORM": {b"AIFF": "aiff", b"AIFC": "aiff"},
    b"FOR1": {b"BEAM": "beam"},
}
#: Brands of the container that pictures, sound and films share. Any other brand is a film.
_BRANDS = {b"M4A ": "m4a", b"M4B ": "m4a", b"qt  ": "mov"}
_PICTURES = {b"avif": "avif", b"avis": "avif", b"mif1": "heif", b"msf1": "heif", b"heif": "heif", b"crx ": "cr3"}
_PICTURES |= dict.fromkeys((b"heic", b"heix", b"hevc", b"hevx", b"heim"), "heic")
_PYC_FLAGS = {bytes(4), b"\1\0\0\0", b"\3\0\0\0"}
#: The versions of an ID3 tag.
_VERSIONS = {b"\2", b"\3", b"\4"}


def kind_of(head: bytes) -> str | None:
    """The kind of a program, sound, film or font, by its `HEAD` first bytes; None for anything else."""
    if _has_brand(head):
        return None if head[8:12] in _PICTURES else _BRANDS.get(head[8:12], "mp4")
    if head[:4] in _WITHIN:
        return _WITHIN[head[:4]].get(head[8:12])
    # two or three letters alone might begin a text
    if head.startswith(b"MZ") and b"\0" in head:
        return "exe"
    if head.startswith(b"ID3") and head[3:4] in _VERSIONS:
        return "mp3"
    if head[2:4] == b"\r\n" and head[4:8] in _PYC_FLAGS:
        return "pyc"
    return next((kind for first, kind in _FIRST.items() if head.startswith(first)), None)


def any_kind_of(data: bytes) -> str | None:
    """Like `kind_of`, but also for documents, pictures and archives; None for plain text."""
    head = data[:HEAD]
    if found := kind_of(head):
        return found
    if _has_brand(head):
        return _PICTURES.get(head[8:12])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    # two letters alone might begin a text
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return "bmp"
    if pattern := next((kind for kind, first in (("bz2", _BZIP2), ("gif", _GIF)) if first.match(head)), None):
        return pattern
    return next((kind for first, kind in _FIRST_OF_OTHERS.items() if head.startswith(first)), None)


def _has_brand(head: bytes) -> bool:
    # the box that names the brands is far smaller than 65,536 bytes
    return head[:2] == b"\0\0" and head[4:8] == b"ftyp"
