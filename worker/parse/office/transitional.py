"""Converts the variants of Office Open XML to the one that the libraries read."""

from __future__ import annotations

import re
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

from schemas.content.document import DocumentProperties
from worker.parse.limits import Limits
from worker.parse.office.stated import core, core_of
from worker.parse.office.zip_container import open_container

_TYPES = "[Content_Types].xml"
_RELATIONS = "_rels/.rels"
#: Content types of the main part in variants, and the plain type by the word that names the program.
_VARIANT = re.compile(
    rb"application/vnd\.(?:ms-(word|powerpoint|excel)\.\w+\.macroEnabled\w*"
    rb"|openxmlformats-officedocument\.(\w+)\.(?:template|slideshow))\.main\+xml",
    re.IGNORECASE,
)
_PLAIN = {
    b"word": b"wordprocessingml.document",
    b"powerpoint": b"presentationml.presentation",
    b"excel": b"spreadsheetml.sheet",
}
_PLAIN |= {plain.split(b".")[0]: plain for plain in _PLAIN.values()}
#: Namespaces and kinds of relations in Strict: the first word names the standard's part.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(?=\w)")
_STRICT_MARK = b"http://purl.oclc.org/ooxml/"
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/"


def transitional(data: bytes, limits: Limits) -> tuple[bytes, DocumentProperties]:
    """Return the container in the variant that the libraries read, as most already are, and its core properties.

    Raises `FileError` as `zip_container.open_container` does.
    """
    with open_container(data, limits, declarations=False) as archive:
        names = archive.namelist()
        types = archive.read(_TYPES) if _TYPES in names else b""
        plain_types = _VARIANT.sub(_plain_type, types)
        is_strict = _RELATIONS in names and _STRICT_MARK in archive.read(_RELATIONS)
        if is_strict or types != plain_types:
            data = _rewritten(archive, plain_types, is_strict=is_strict)
            return data, core(data)
        return data, core_of(archive)


def _plain_type(variant: re.Match[bytes]) -> bytes:
    plain = _PLAIN.get((variant[1] or variant[2]).lower())
    return b"application/vnd.openxmlformats-officedocument.%s.main+xml" % plain if plain else variant[0]


def _rewritten(archive: ZipFile, types: bytes, *, is_strict: bool) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as copy:
        for name in dict.fromkeys(archive.namelist()):
            content = types if name == _TYPES else archive.read(name)
            if is_strict and name.endswith((".xml", ".rels")):
                content = _STRICT.sub(_TRANSITIONAL, content)
            copy.writestr(name, content)
    return made.getvalue()
