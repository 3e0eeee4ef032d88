"""What the first bytes of a file tell about kinds that hold no text, whatever the file is called."""

from __future__ import annotations

#: First bytes that are looked at.
HEAD = 64

#: First bytes of one kind only, by the extension that the kind usually has.
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
#: Kinds within containers that have kinds of their own, by the bytes from the eighth on.
_WITHIN = {
    b"RIFF": {b"WAVE": "wav", b"AVI ": "avi"},
    b"FORM": {b"AIFF": "aiff", b"AIFC": "aiff"},
    b"FOR1": {b"BEAM": "beam"},
}
#: Of the container that pictures, sound and films have in common: what is none of these is a film.
_BRANDS = {b"M4A ": "m4a", b"M4B ": "m4a", b"qt  ": "mov"}
_PICTURES = {b"avif", b"avis", b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heif", b"mif1", b"msf1", b"crx "}
_PYC_FLAGS = {bytes(4), b"\1\0\0\0", b"\3\0\0\0"}
#: The versions of an ID3 tag.
_VERSIONS = {b"\2", b"\3", b"\4"}


def kind_of(head: bytes) -> str | None:
    """The extension that a program, sound, film or font with these `HEAD` first bytes usually has; None: it is none."""
    # the size of what tells the brands, which is far below 65,536
    if head[:2] == b"\0\0" and head[4:8] == b"ftyp":
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
