"""PDF pages that are images with some printed text: the text of the images must not be missing silently."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.contract.test_ocr import needs_tesseract, saved
from tests.parsing import parse
from worker.formats import unsupported
from worker.parse import Limits
from worker.parse.pdf import pdf

LIMITS = Limits(seconds=60)


def page(text: str, *, width: int = 1240, height: int = 1754) -> Any:
    picture = Image.new("L", (width, height), 255)
    ImageDraw.Draw(picture).multiline_text((100, 300), text, 0, ImageFont.load_default(40), spacing=20)
    return picture


def scan(pictures: list[Any], stamps: list[str], *, mode: int = 0) -> bytes:
    """Images as pages, each with its text on top, drawn in the given text rendering mode (3: invisible)."""
    numbers = range(10, 10 + 3 * len(pictures), 3)
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {len(pictures)}/Kids[{kids}]>>".encode(),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    for number, picture, stamp in zip(numbers, pictures, stamps, strict=True):
        objects[number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {number + 1} 0 R"
            f"/Resources<</Font<</F 3 0 R>>/XObject<</I {number + 2} 0 R>>>>>>"
        ).encode()
        drawn = f"q 595 0 0 842 0 0 cm /I Do Q BT {mode} Tr /F 10 Tf 40 810 Td ({stamp}) Tj ET".encode()
        objects[number + 1] = _stream("", drawn)
        objects[number + 2] = _picture(picture)
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, held) for number, held in objects.items())
    return b"%PDF-1.7\n" + body + b"trailer\n<</Root 1 0 R>>\n%%EOF"


def _picture(picture: Any) -> bytes:
    width, height = picture.size
    kind = f"/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode"
    return _stream(kind, saved(picture, "JPEG"))


def _stream(more: str, data: bytes) -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (more.encode(), len(data), data)


def words(document: Document) -> str:
    return " ".join(document.text.split())


HARBOUR = page("The harbour opens at dawn\nand closes when the fog comes in.")
FERRY = page("No ferry leaves before noon.")
STAMPS = ["Case 1:20-cv-00123 Document 45 Page 1 of 2", "Case 1:20-cv-00123 Document 45 Page 2 of 2"]


@needs_tesseract
def test_a_scan_is_read_though_something_is_printed_on_it() -> None:
    found = pdf.read(scan([HARBOUR, FERRY], STAMPS), LIMITS)
    assert words(found) == (
        f"{STAMPS[0]} The harbour opens at dawn and closes when the fog comes in. "
        f"{STAMPS[1]} No ferry leaves before noon."
    )
    assert len(found.pages) == 2


@needs_tesseract
def test_what_was_read_before_is_not_read_twice() -> None:
    found = pdf.read(scan([FERRY], ["No ferry leaves before noon."], mode=3), LIMITS)
    assert words(found) == "No ferry leaves before noon."


@needs_tesseract
@pytest.mark.parametrize(
    ("pictures", "text"),
    [
        ([page("", width=1240, height=1754)], "A title on a ground without words"),
        ([HARBOUR], "Text of its own. " * 20),
    ],
    ids=["a ground", "much text"],
)
def test_a_page_with_a_picture_keeps_its_own_text(pictures: list[Any], text: str) -> None:
    assert words(pdf.read(scan(pictures, [text]), LIMITS)) == text.strip()


def without_tesseract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsupported, "programs", lambda _: ())


def test_a_scan_that_only_has_stamps_is_never_indexed_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    without_tesseract(monkeypatch)
    with pytest.raises(FileError) as refused:
        pdf.read(scan([HARBOUR, FERRY], STAMPS), LIMITS)
    assert refused.value.reason is Reason.NEEDS_OCR


def test_text_that_differs_from_page_to_page_is_no_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    without_tesseract(monkeypatch)
    found = pdf.read(scan([HARBOUR, FERRY], ["Our plans", "Our figures"]), LIMITS)
    assert words(found) == "Our plans Our figures"


@needs_tesseract
def test_a_scan_that_takes_too_long_says_so_and_a_page_with_text_of_its_own_keeps_it() -> None:
    late = Limits(seconds=0)
    with pytest.raises(FileError) as refused:
        pdf.read(scan([HARBOUR, FERRY], STAMPS), late)
    assert refused.value.reason is Reason.TOO_LARGE
    assert words(pdf.read(scan([HARBOUR, FERRY], ["Our plans", "Our figures"]), late)) == "Our plans Our figures"


def test_an_indexed_scan_is_found_through_the_helper() -> None:
    assert words(parse("a.pdf", scan([HARBOUR], ["Our plans"]), LIMITS)).startswith("Our plans")
