"""Names of uploaded files, made fit for a tree of nodes whatever sent them."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from schemas.document import extension

#: Bytes of one name, as file systems have it, and levels of folders.
MAX_NAME = 255
#: Letters of an extension that a name keeps when it is cut.
MAX_EXTENSION = 10
MAX_DEPTH = 50

_DRIVE = re.compile(r"^[A-Za-z]:")
#: Quotes and control characters, as browsers and libraries write them within a quoted name.
_ESCAPED = re.compile("%([01][0-9A-F]|22|7F)")


def clean_path(sent: str) -> tuple[str, ...]:
    """The folders and the name in a file name as it was sent; nothing if no name is left.

    Slashes of either kind part names; drives, roots, `.`, `..` and control characters go, and what is too long is cut
    and told apart by its hash. Two spellings of a letter (NFC, NFD) are one.
    """
    sent = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), sent)
    parts = _DRIVE.sub("", sent.replace("\\", "/")).split("/")
    if not _clean(parts[-1]):
        return ()
    return tuple(name for part in parts if (name := _clean(part)))


def _clean(part: str) -> str:
    plain = "".join(letter for letter in unicodedata.normalize("NFC", part) if unicodedata.category(letter) != "Cc")
    plain = plain.strip()
    return "" if plain in {".", ".."} else _shortened(plain)


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME:
        return name
    found = extension(name)
    ending = f"~{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    ending += f".{found}" if 0 < len(found) <= MAX_EXTENSION else ""
    return name.encode()[: MAX_NAME - len(ending.encode())].decode(errors="ignore") + ending
