"""The samples of every format, and harmful files made from them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from schemas.errors import FileError
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
SAMPLES = sorted(path for path in DATA.glob("*/*") if path.is_file() and path.suffix != ".expected")
PACKAGES = ("docx/handbook.docx", "pptx/lighthouse.pptx", "xlsx/catches.xlsx", "odt/garden.odt", "epub/tales.epub")
LIMITS = Limits()


@pytest.fixture(autouse=True, scope="module")
def helper() -> Iterator[None]:
    """Stop the helper processes at the end of each module."""
    yield
    sandbox.stop()


def of(path: str) -> bytes:
    return (DATA / path).read_bytes()


def expected(path: Path) -> tuple[dict[str, object], str]:
    """The fields of the document, or the reason why there is none, and the text."""
    place = path.with_name(path.name + ".expected")
    if not place.exists():
        return {}, path.read_bytes().decode("utf-8-sig")
    head, _, text = place.read_bytes().decode().partition("\n\n")
    return json.loads(head), text.removesuffix("\n")


def refused(name: str, data: bytes, limits: Limits = LIMITS) -> FileError:
    with pytest.raises(FileError) as caught:
        parse(name, data, limits)
    return caught.value


def zipped(members: dict[str, bytes]) -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def with_member(path: str, name: str, content: bytes) -> bytes:
    with ZipFile(DATA / path) as archive:
        return zipped({**{n: archive.read(n) for n in archive.namelist()}, name: content})


def png(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(b"\0" * 9999)) + part(b"IEND", b"")


def endless_sheet() -> bytes:
    """A sheet whose only row claims a very high row number, so that skipping the rows before it takes long."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    row = f'<worksheet {main}><sheetData><row r="99999999999"><c r="A1"><v>1</v></c></row></sheetData></worksheet>'
    return with_member("xlsx/catches.xlsx", "xl/worksheets/sheet1.xml", row.encode())
