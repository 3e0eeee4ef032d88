"""Rich text: its text by striprtf, without styles."""

from __future__ import annotations

import re

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse.limits import Limits

_TITLE = re.compile(r"\{\\title\s+([^{}\\]{1,500})\}")
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{3,5})")
#: Pictures and embedded objects, in hexadecimal digits or raw: most of a file's bytes and none of its text.
_BINARY = re.compile(rb"[0-9a-fA-F\s]{1000,}")


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a rich text; `FileError` (`parse_failed`) if it is none. Characters count in the plain text."""
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        raise FileError(Reason.PARSE_FAILED, "The file is no rich text; save it as .rtf again, or rename it to .txt.")
    code_page = _CODE_PAGE.search(data, 0, 4096)
    source = _BINARY.sub(b"", data).decode("latin-1")
    text: str = rtf_to_text(source, encoding=f"cp{int(code_page[1])}" if code_page else "cp1252", errors="replace")
    title = _TITLE.search(source, 0, 65_536)
    # characters beyond 16 bits are written as two halves
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Document(text.strip("\n"), "rtf", None, title[1].strip() if title else None)
