"""Rich text: its text by striprtf, without styles."""

from __future__ import annotations

import codecs
import re

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse.limits import Limits

_TITLE = re.compile(r"\{\\title\s+([^{}\\]{1,500})\}")
_CODE_PAGE = re.compile(r"\\ansicpg(\d{1,5})")
#: The code page that Python has no number for.
_MAC_ROMAN = "10000"
_WESTERN = "cp1252"
#: Lines end anywhere and mean nothing, also within the bytes of a character.
_WITHIN_BYTES = re.compile(r"(?<=\\'[0-9a-fA-F]{2})[\r\n]+(?=\\')")
#: Pictures and embedded objects, in hexadecimal digits: most of a file's bytes and none of its text.
_BINARY = re.compile(rb"[0-9a-fA-F\s]{1000,}")


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a rich text; `FileError` (`parse_failed`) if it is none. Characters count in the plain text."""
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        raise FileError(Reason.PARSE_FAILED, "The file is no rich text; save it as .rtf again, or rename it to .txt.")
    source, encoding = _without_code_page(_WITHIN_BYTES.sub("", _BINARY.sub(b"", data).decode("latin-1")))
    text: str = rtf_to_text(source, encoding=encoding, errors=_ERRORS if encoding == "utf-8" else "replace")
    title = _TITLE.search(source, 0, 65_536)
    # characters beyond 16 bits are written as two halves
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Document(text.strip("\n"), "rtf", None, title[1].strip() if title else None)


def _without_code_page(source: str) -> tuple[str, str]:
    """The source without the name of its code page, which the library takes for UTF-8 if it is not known, and that."""
    found = _CODE_PAGE.search(source, 0, 4096)
    if found is None:
        return source, _WESTERN
    # another word in its place keeps apart what is around it
    return rf"{source[: found.start()]}\ansi{source[found.end() :]}", _encoding(found[1])


def _encoding(page: str) -> str:
    try:
        return "mac_roman" if page == _MAC_ROMAN else codecs.lookup(f"cp{page}").name
    except LookupError:
        return _WESTERN


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """What is no UTF-8 though a document says so: its writer asked the system, and not its text."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode(_WESTERN, "replace"), error.end


_ERRORS = "foldex.western"
codecs.register_error(_ERRORS, _as_western)
