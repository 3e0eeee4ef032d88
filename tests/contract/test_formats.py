"""One suite over every format: real samples with expected results, misleading names, and damage.

The expectation of a sample in tests/data/<type>/ is in `<sample>.expected`: a line of JSON, a blank line, and the text.
A sample without such a file is its own expected text.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pytest

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound
from tests.contract.samples import DATA, LIMITS, PACKAGES, SAMPLES, expected, helper, of, refused, zipped
from tests.parsing import parse
from worker.formats import by_name, unsupported
from worker.formats.registry import BY_EXTENSION, FORMATS, Format
from worker.parse import Limits, refusal, version

__all__ = ["helper"]
FUZZ_SECONDS = 4.0
BINARY = [path for path in SAMPLES if (found := BY_EXTENSION.get(path.suffix[1:])) and found.binary]


def can_read(path: Path) -> bool:
    """Whether this machine has the programs that the sample's format needs."""
    needed = BY_EXTENSION.get(path.suffix[1:])
    return needed is None or needed.type not in {"doc", "image"} or bool(unsupported.programs(needed.programs))


# samples


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_becomes_what_is_expected(path: Path) -> None:
    head, text = expected(path)
    if "reason" in head:
        if head["reason"] == Reason.NEEDS_OCR and unsupported.programs(("tesseract",)):
            assert parse(path.name, path.read_bytes(), LIMITS).text
        else:
            assert refused(path.name, path.read_bytes()).reason == head["reason"]
        return
    if not can_read(path):
        assert "install one" in refused(path.name, path.read_bytes()).message
        return
    document = parse(path.name, path.read_bytes(), LIMITS)
    shown = {name: getattr(document, name) for name in head}
    assert {**shown, "pages": list(document.pages)} == {"pages": [], **head}
    assert document.type == path.parent.name
    if document.type != "doc":
        assert document.text == text
    else:
        # converters differ in blank lines
        assert document.text.split() == text.split()


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.type)
def test_every_line_of_the_table_has_a_sample(format_: Format) -> None:
    assert any(path.parent.name == format_.type for path in SAMPLES)
    assert all(path.stat().st_size < 100_000 for path in SAMPLES)


def test_pages_begin_where_they_say() -> None:
    document = parse("tides.pdf", of("pdf/tides.pdf"), LIMITS)
    pages = [document.text[start:end].strip() for start, end in pairwise((*document.pages, len(document.text)))]
    assert [page[:8] for page in pages] == ["The tide", "Page two", "", "The last"]


def test_names_tell_type_and_version() -> None:
    assert {by_name.of(f"folder/a.{extension}")[0].type for extension in BY_EXTENSION} == {f.type for f in FORMATS} - {
        "code"
    }
    assert [by_name.of(name)[0].type for name in ("a.py", "Makefile", "LICENSE")] == ["code", "code", "text"]
    assert version("a.docx") == f"docx-{BY_EXTENSION['docx'].version}"
    assert refusal("a.pdf") is None


@pytest.mark.parametrize(
    "name",
    [
        "a.mp3",
        "a.ZIP",
        "b.numbers",
        "d.mp4",
        "e.exe",
        "f.heic",
        "g.parquet",
        "h.pst",
        "i.vsdx",
        "j.one",
        "k.chm",
        "l.pages",
    ],
)
def test_what_is_not_read_has_a_remedy(name: str) -> None:
    failure = refusal(name)
    assert failure is not None
    assert failure.reason is Reason.UNSUPPORTED_TYPE
    assert refused(name, b"anything").message == failure.message


# content takes precedence over the name


@pytest.mark.parametrize("path", [*PACKAGES, "pdf/tides.pdf"])
@pytest.mark.parametrize(
    "name", ["notes.txt", "page.html", "data.json", "x.pdf", "y.docx", "z.png", "old.ppt", "noextension"]
)
def test_content_is_believed_before_the_name(path: str, name: str) -> None:
    document = parse(name, of(path), LIMITS)
    assert document == parse(path, of(path), LIMITS)


@pytest.mark.parametrize("extension", [e for f in FORMATS if f.binary for e in f.extensions.split()])
def test_text_under_a_wrong_name_is_text(extension: str) -> None:
    document = parse(f"a.{extension}", b"Only a note, nothing more.\n", LIMITS)
    assert (document.type, document.text) == ("text", "Only a note, nothing more.\n")
    assert parse(f"a.{extension}", b"<!DOCTYPE html><h1>A page</h1><p>Text</p>", LIMITS).type == "html"


def test_a_polyglot_is_one_thing_only() -> None:
    both = of("pdf/tides.pdf") + of("docx/handbook.docx")
    assert parse("a.docx", both, LIMITS).type == "pdf"
    assert refused("a.txt", b"PK\3\4" + b"text" * 100).reason is Reason.PARSE_FAILED
    assert parse("a.pdf", b"\r\n\r\n" + of("pdf/tides.pdf"), LIMITS).type == "pdf"
    assert parse("a.txt", b"BM and RIFF begin this text", LIMITS).type == "text"
    assert refused("a.txt", b"II*\0" + b"text" * 100).reason in {Reason.PARSE_FAILED, Reason.NEEDS_OCR}


@pytest.mark.parametrize(
    ("member", "remedy"),
    [
        ("readme.txt", "extract"),
        ("Index/Document.iwa", "as .docx, .xlsx, .pptx or .pdf"),
        ("visio/document.xml", ".pdf"),
    ],
)
@pytest.mark.parametrize("name", ["a.docx", "a.key"])
def test_an_archive_that_is_no_document_is_refused(member: str, remedy: str, name: str) -> None:
    failure = refused(name, zipped({member: b"hello"}))
    assert (failure.reason, remedy in failure.message) == (Reason.UNSUPPORTED_TYPE, True)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ("EncryptedPackage", Reason.ENCRYPTED),
        ("Contents", Reason.UNSUPPORTED_TYPE),
        ("PowerPoint Document", Reason.UNSUPPORTED_TYPE),
        ("Workbook", Reason.PARSE_FAILED),
    ],
)
@pytest.mark.parametrize("name", ["a.docx", "a.pot", "a.msg", "a.ppt"])
def test_compound_files_are_told_apart(name: str, stream: str, reason: Reason) -> None:
    data = compound({stream: random.Random(1).randbytes(5000)})
    assert refused(name, data).reason is reason


@pytest.mark.parametrize("name", ["messages.pot", "Pose.msg"])
def test_extensions_that_texts_have_as_well_are_read(name: str) -> None:
    assert parse(name, b'msgid "one"\nfloat64 two\n', LIMITS).type == "text"


# binaries that are kept


@pytest.mark.parametrize(
    ("name", "data"), [("a.bin", b"plain words"), ("b.txt", b"words\0and more"), ("c.dat", b"\xc3\xa9\0")]
)
def test_kept_binaries_are_read_if_they_are_text(name: str, data: bytes) -> None:
    assert parse(name, data, LIMITS, binaries=True).text == data.decode().replace("\0", "\ufffd")
    assert refused(name, data).reason in {Reason.BINARY, Reason.UNSUPPORTED_TYPE}


@pytest.mark.parametrize("name", ["a.bin", "a.txt", "a.md", "noextension"])
def test_kept_binaries_that_are_no_text_keep_their_reason(name: str) -> None:
    data = b"\x7fELF\2\1\1\0" + bytes(range(256)) * 20
    with pytest.raises(FileError) as caught:
        parse(name, data, LIMITS, binaries=True)
    assert (caught.value.reason, caught.value.message) == (refused(name, data).reason, refused(name, data).message)


# damage


def attempt(name: str, data: bytes) -> Document | FileError:
    try:
        return parse(name, data, Limits(seconds=5))
    except FileError as failure:
        return failure


@pytest.mark.parametrize("path", BINARY, ids=lambda path: path.name)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_truncated_file_is_an_outcome(path: Path, share: float) -> None:
    data = path.read_bytes()
    came = attempt(path.name, data[: int(len(data) * share)])
    assert came.text.strip() if isinstance(came, Document) else came.reason is not Reason.CRASHED


# fuzz


def mutated(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        at = chance.randrange(len(made))
        match chance.randrange(4):
            case 0:
                made[at] = chance.randrange(256)
            case 1:
                del made[at : at + chance.randrange(1, 200)]
            case 2:
                made[at:at] = made[chance.randrange(len(made)) :][:200]
            case _:
                made[at : at + 8] = chance.randbytes(8)
        if not made:
            return data
    return bytes(made)


def inside(data: bytes, chance: random.Random) -> bytes:
    """A container whose members are damaged. Damage to the container itself is mostly caught by its checksums."""
    with ZipFile(BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([name for name, content in members.items() if content])
    return zipped({**members, name: mutated(members[name], chance)})


@pytest.mark.parametrize("damage", [mutated, inside])
def test_damaged_samples_are_documents_or_outcomes(damage: Callable[[bytes, random.Random], bytes]) -> None:
    chance = random.Random(20_240_501)
    samples = [path for path in SAMPLES if damage is mutated or is_zipfile(path)]
    until = time.monotonic() + FUZZ_SECONDS
    reasons: Counter[Reason | None] = Counter()
    # the same damage in every run, so that the result does not depend on the load
    while time.monotonic() < until or reasons.total() < 4 * len(samples):
        path = samples[reasons.total() % len(samples)]
        came = attempt(path.name, damage(path.read_bytes(), chance))
        if isinstance(came, Document):
            assert came.text.strip()
            assert "\0" not in came.text
            assert came.text.encode()
            assert list(came.pages) == sorted(came.pages)
            reasons[None] += 1
        else:
            assert came.reason is not Reason.CRASHED, (path, reasons.total())
            assert came.message.endswith("."), path
            reasons[came.reason] += 1
    # some damage goes unnoticed
    assert reasons[None]
    assert reasons[Reason.PARSE_FAILED]
    # damage must not affect the next file
    for whole in PACKAGES:
        assert parse(whole, of(whole), LIMITS).text == expected(DATA / whole)[1]
