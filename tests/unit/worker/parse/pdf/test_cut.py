"""PDF files that are cut, or whose list of pages is lost, keep the text of the pages that are there."""

from __future__ import annotations

import re
import time
import zlib

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.contract.samples import of
from tests.parsing import parse
from tests.pdfs import drawn, text
from worker.parse import Limits
from worker.parse.pdf import rebuilt

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits()
COUNT = 5


def pages() -> bytes:
    return drawn([[text(72, 700, f"Page{number} has words")] for number in range(COUNT)])


def packed() -> bytes:
    """A file whose objects but the contents are in one stream, as PDF 1.5 has them."""
    whole = pages()
    objects = {int(found[1]): found[2] for found in re.finditer(rb"(\d+) 0 obj\n(.*?)\nendobj\n", whole, re.DOTALL)}
    inner = {number: part for number, part in objects.items() if b"stream" not in part}
    body, places = b"", list[bytes]()
    for number, part in inner.items():
        places.append(b"%d %d" % (number, len(body)))
        body += part + b" "
    head = b" ".join(places) + b" "
    data = zlib.compress(head + body)
    names = b"/Type/ObjStm/N %d/First %d/Filter/FlateDecode/Length %d" % (len(inner), len(head), len(data))
    parts = [b"%PDF-1.5\n", b"90 0 obj\n<<%s>>stream\n%s\nendstream\nendobj\n" % (names, data)]
    parts += [b"%d 0 obj\n%s\nendobj\n" % (number, part) for number, part in objects.items() if number not in inner]
    return b"".join([*parts, b"91 0 obj\n<</Type/XRef/Size 92/W[1 2 1]/Root 1 0 R/Length 400>>stream\nabc"])


def read_pages(data: bytes) -> list[int]:
    document = parse("a.pdf", data, LIMITS)
    assert "the end of the file" in document.note
    return [number for number in range(COUNT) if f"Page{number} has words" in document.text]


def test_a_cut_file_keeps_the_pages_before_the_cut() -> None:
    data = pages()
    ends = [data.index(b"endstream", data.index(b"Page%d" % number)) for number in range(COUNT)]
    for number, end in enumerate(ends):
        for cut in (end, end + 10, end + 30):
            assert read_pages(data[:cut]) == list(range(number + 1))
    trailer = data.index(b"trailer")
    for cut in (trailer, trailer + 4, trailer + 12, len(data) - 12):
        assert read_pages(data[:cut]) == list(range(COUNT))


def test_a_cut_file_with_packed_objects_keeps_its_pages() -> None:
    data = packed()
    assert read_pages(data) == list(range(COUNT))
    assert read_pages(data[: data.index(b"91 0 obj")]) == list(range(COUNT))
    assert read_pages(data[: data.index(b"Page3")]) == [0, 1, 2]


@pytest.mark.parametrize(
    "lost", [rb"1 0 obj.*?endobj\n", rb"2 0 obj.*?endobj\n", rb"1 0 obj.*?endobj\n2 0 obj.*?endobj\n"]
)
def test_a_file_without_its_list_of_pages_keeps_them(lost: bytes) -> None:
    data = re.sub(rb"trailer.*", b"", pages(), flags=re.DOTALL)
    assert read_pages(re.sub(lost, b"", data, count=1, flags=re.DOTALL)) == list(range(COUNT))


@pytest.mark.parametrize("sample", ["pdf/tides.pdf", "pdf/berths.pdf"])
@pytest.mark.parametrize("share", [0.99, 0.98, 0.95, 0.9, 0.8])
def test_a_cut_sample_keeps_its_text(sample: str, share: float) -> None:
    whole = of(sample)
    document = parse(sample, whole[: int(len(whole) * share)], LIMITS)
    words = set(parse(sample, whole, LIMITS).text.split())
    assert len(words & set(document.text.split())) >= 0.9 * len(words)
    assert document.note or share > 0.98, "nothing is lost"


def test_damaged_pages_are_named() -> None:
    data = re.sub(rb"14 0 obj.*?endobj\n", b"", pages(), count=1, flags=re.DOTALL)
    document = parse("a.pdf", data, LIMITS)
    assert "pages 3" in document.note
    assert [f"Page{number}" in document.text for number in range(COUNT)] == [True, True, False, True, True]
    assert parse("a.pdf", pages(), LIMITS).note == ""


def test_what_has_no_page_fails() -> None:
    for data in (b"%PDF-1.7\n", pages()[:60], b"%PDF-1.4\n1 0 obj\n<</Type/Catalog>>\nendobj\n"):
        with pytest.raises(FileError) as refused:
            parse("a.pdf", data, LIMITS)
        assert refused.value.reason is Reason.PARSE_FAILED


def test_hostile_files_are_rebuilt_in_linear_time() -> None:
    bomb = zlib.compress(bytes(100_000_000))
    names = b"<</Type/ObjStm/N 1/First 0/Filter/FlateDecode>>stream\n"
    started = time.process_time()
    for data in (
        b"1 0 obj\n" * 60_000,
        b"1 0 obj<</Type/Page>>" * 30_000,
        b"/Type/ObjStm " * 30_000,
        b"1 0 obj" + names * 5_000,
        (b"1 0 obj" + names + bomb + b"endstream") * 20,
        b"1 " * 1_000_000,
        b"1" * 3_000_000,
        b"/Type" + b" " * 3_000_000,
    ):
        rebuilt.rebuilt(b"%PDF-1.5\n" + data)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("size", [20, 1_100, 60_000])
def test_bytes_before_the_header_do_not_hide_a_file(size: int) -> None:
    for data in (pages(), packed()):
        document = parse("a.pdf", b"HTTP/1.1 200 OK\r\n" * (size // 17) + data, LIMITS)
        assert [f"Page{number} has words" in document.text for number in range(COUNT)] == [True] * COUNT


@pytest.mark.parametrize("dropped", [3, 9, 14])
def test_a_file_without_its_header_is_read(dropped: int) -> None:
    for data in (pages(), packed()):
        document = parse("a.pdf", data[dropped:], LIMITS)
        assert all(f"Page{number} has words" in document.text for number in range(1, COUNT))


@pytest.mark.parametrize("data", [b"1 0 obj is no file\n" * 4, b"endobj and 7 0 object\n", b"words of a text\n"])
def test_a_text_with_the_name_of_a_pdf_stays_a_text(data: bytes) -> None:
    assert parse("a.pdf", data, LIMITS).type == "text"


@pytest.mark.parametrize(
    ("data", "type_"),
    [
        (b"<html><body>%s%%PDF-1.4 is a header, and 1 0 obj << is an object</body></html>", "html"),
        (b"Notes: %s%%PDF-1.4 is a header\n", "text"),
        (b"Notes: %s 1 0 obj << and endobj\n", "text"),
    ],
)
@pytest.mark.parametrize("size", [20, 600])
def test_a_page_and_a_text_about_pdf_files_stay_what_they_are(data: bytes, type_: str, size: int) -> None:
    document = parse("a.pdf", data % (b"word " * size), LIMITS)
    assert (document.type, "word word" in document.text) == (type_, True)


def test_a_damaged_file_behind_other_bytes_is_damaged() -> None:
    with pytest.raises(FileError) as refused:
        parse("a.pdf", b"HTTP/1.1 200 OK\r\n" * 100 + b"%PDF-1.7\n" + bytes(range(256)), LIMITS)
    assert refused.value.reason is Reason.PARSE_FAILED
