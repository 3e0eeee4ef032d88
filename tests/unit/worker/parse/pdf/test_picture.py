"""Pages of PDF as pictures, with the lines of a passage."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from schemas.errors import FileError
from worker.parse.limits import Limits
from worker.parse.pdf import picture
from worker.parse.pdf.picture import png
from worker.sandbox.protocol import Head

DATA = Path(__file__).parents[4] / "data" / "pdf"
LIMITS = Limits(seconds=5, memory_bytes=1 << 30)
PASSAGE = "## The tide station\n\nReadings are taken every six hours, by hand (never\n"


def drawn(page: int, passage: str = PASSAGE, name: str = "tides.pdf") -> tuple[Head, Image.Image]:
    head, content = picture.picture({"page": page, "passage": passage}, (DATA / name).read_bytes(), LIMITS)
    return head, Image.open(io.BytesIO(content))


def test_a_page_is_drawn_with_the_lines_of_a_passage() -> None:
    head, image = drawn(1)
    assert image.size == (head["width"], head["height"])
    assert head["width"] <= picture.MAX_WIDTH
    assert head["height"] <= picture.MAX_HEIGHT
    title, line = head["boxes"]
    assert title[1] < line[1]
    for left, top, width, height in head["boxes"]:
        from_x, to_x = (round(edge * image.width) for edge in (left, left + width))
        from_y, to_y = (round(edge * image.height) for edge in (top, top + height))
        # letters are dark, and nothing else is on the page
        assert np.asarray(image.convert("L"))[from_y:to_y, from_x:to_x].min() < 100
    assert np.asarray(image)[: int(title[1] * image.height) - 1].min() == 255


def test_a_passage_of_another_page_has_no_box() -> None:
    assert drawn(2)[0]["boxes"] == []
    assert len(drawn(2, "Page two: high water at 04:12, low water at 10:31.")[0]["boxes"]) == 1


@pytest.mark.parametrize("page", [0, 99])
def test_a_page_that_is_not_there_is_refused(page: int) -> None:
    with pytest.raises(FileError, match="no such page"):
        drawn(page)


def test_a_locked_document_is_refused() -> None:
    with pytest.raises(FileError) as refused:
        drawn(1, name="locked.pdf")
    assert refused.value.reason == "encrypted"


def test_boxes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_BOXES", 1)
    assert len(drawn(1)[0]["boxes"]) == 1
    monkeypatch.setattr(picture, "MAX_LINES", 1)
    assert drawn(1, "\n" + PASSAGE)[0]["boxes"] == []


def test_the_pixels_are_those_of_the_array() -> None:
    pixels = np.random.default_rng(7).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)
