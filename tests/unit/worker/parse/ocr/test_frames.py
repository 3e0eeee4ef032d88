"""Which frames of a picture are read, and how large they may be and become, without Tesseract."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats import unsupported
from worker.parse import Limits
from worker.parse.ocr import image

Image = pytest.importorskip("PIL.Image", reason="install pillow (extra `ocr`) to run")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The sizes of the pictures that are given to Tesseract, whose text is their brightest shade."""
    sizes: list[tuple[int, int]] = []

    def recognise(picture: Any, _deadline: float, _limits: Limits) -> str:
        sizes.append(picture.size)
        return str(picture.getextrema()[1])

    monkeypatch.setattr(image, "recognise", recognise)
    monkeypatch.setattr(unsupported, "programs", list)
    return sizes


def frames(kind: str, *shades: int, side: int = 10) -> bytes:
    first, *others = (Image.new("L", (side, side), shade) for shade in shades)
    out = BytesIO()
    first.save(out, kind, save_all=bool(others), append_images=others)
    return out.getvalue()


def read(data: bytes, **limits: Any) -> Document:
    return image.read(data, Limits(**limits))


@pytest.mark.usefixtures("seen")
def test_the_frames_of_a_scan_are_its_pages() -> None:
    found = read(frames("TIFF", 10, 20, 30))
    assert (found.text, found.pages) == ("10\n\n20\n\n30", (0, 4, 8))
    assert read(frames("TIFF", 10)).pages == ()


def test_of_what_moves_the_first_frame_is_read(seen: list[tuple[int, int]]) -> None:
    found = read(frames("GIF", 10, 200, 30))
    assert (len(seen), found.pages) == (1, ())


@pytest.mark.parametrize(("most", "is_read"), [(3, True), (2, False)])
def test_a_scan_has_a_limited_number_of_pages(seen: list[tuple[int, int]], most: int, is_read: bool) -> None:
    scan = frames("TIFF", 10, 20, 30)
    if is_read:
        assert read(scan, max_pages=most).text
    else:
        with pytest.raises(FileError) as refused:
            read(scan, max_pages=most)
        assert (refused.value.reason, seen) == (Reason.TOO_LARGE, [])
    # frames of what moves are no pages
    assert read(frames("GIF", 10, 200, 30), max_pages=1).text


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize(("name", "most"), [("_MAX_PIXELS", 100), ("_MAX_SIDE_PIXELS", 10)])
def test_each_frame_has_a_largest_size(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.setattr(image, name, most)
    assert read(frames("PNG", 10)).text == "10"
    small, large = Image.new("L", (10, 10), 10), Image.new("L", (11, 10), 10)
    for order in ((large,), (small, large)):
        out = BytesIO()
        order[0].save(out, "TIFF", save_all=True, append_images=order[1:])
        with pytest.raises(FileError, match="11 by 10 pixels"):
            read(out.getvalue())


@pytest.mark.parametrize(("side", "read_as"), [(10, 20), (11, 11)])
def test_small_pictures_are_enlarged(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[int, int]], side: int, read_as: int
) -> None:
    monkeypatch.setattr(image, "_SMALL_PIXELS", 100)
    read(frames("PNG", 10, side=side))
    assert seen == [(read_as, read_as)]


@pytest.mark.parametrize(("longest", "read_as"), [(20, 20), (19, 10)])
def test_no_picture_is_enlarged_beyond_what_tesseract_takes(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[int, int]], longest: int, read_as: int
) -> None:
    monkeypatch.setattr(image, "_MAX_SIDE_PIXELS", longest)
    read(frames("PNG", 10))
    assert seen == [(read_as, read_as)]
