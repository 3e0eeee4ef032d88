"""Finds the attachments of an Outlook message (MS-OXMSG), and the streams of its properties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Kinds of values: text in UTF-16, text in the code page of the sender, bytes.
WIDE, NARROW, BINARY = "001F", "001E", "0102"
#: Property numbers of an attachment ([MS-OXPROPS]): its long name, its short name, its displayed name; its bytes.
FILE_NAMES = ("3707", "3704", "3001")
DATA = "3701"
_ATTACHMENT = "__attach_version1.0_"


def attachments(file: Any) -> Iterator[str]:
    """Yield the folders of the attachments in a compound file, in their order."""
    yield from sorted({path[0] for path in file.listdir() if path[0].startswith(_ATTACHMENT)})


def path_of(number: str, kind: str, folder: str = "") -> list[str]:
    """Return the path of the stream of a property."""
    return [*filter(None, [folder]), f"__substg1.0_{number}{kind}"]


def stream(file: Any, number: str, kind: str, folder: str = "") -> bytes:
    """Return the bytes of a property; empty if there is none."""
    path = path_of(number, kind, folder)
    return bytes(file.openstream(path).read()) if file.exists(path) else b""
