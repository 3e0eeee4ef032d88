"""Text in pictures, by Tesseract where that is installed."""

from __future__ import annotations

import time
from io import BytesIO
from typing import Any

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse import types
from worker.parse.blocks import laid_out
from worker.parse.limits import Limits, too_large

#: A picture is refused by the size it declares, before its pixels are made: one byte each, and more while converting.
_MAX_PIXELS = 60_000_000
#: Files whose frames are pages; those of other kinds are moments of a film, and the first will do.
_PAGED = ("TIFF",)


def read(data: bytes, limits: Limits) -> Document:
    """The text in a picture, page by page. Raises `FileError`: `too_large`, `needs_ocr`, `parse_failed`."""
    if not types.has_ocr():
        raise FileError(Reason.NEEDS_OCR)
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the bound is our own
    with Image.open(BytesIO(data)) as image:
        frames = getattr(image, "n_frames", 1) if image.format in _PAGED else 1
        limits.check_pages(frames)
        _check_pixels(image)
        if not types.programs(("tesseract",)):
            raise FileError(Reason.NEEDS_OCR)
        text, pages = laid_out(_frames(image, frames, limits), limits)
    return Document(text, "image", pages=pages if frames > 1 else ())


def _frames(image: Any, count: int, limits: Limits) -> Any:
    until = time.monotonic() + limits.seconds
    for number in range(count):
        image.seek(number)
        _check_pixels(image)
        yield recognise(image.convert("L"), until, limits)


def _check_pixels(image: Any) -> None:
    width, height = image.size
    if width * height > _MAX_PIXELS:
        message = f"The picture has {width:,} by {height:,} pixels, more than {_MAX_PIXELS:,}; scale it down."
        raise FileError(Reason.TOO_LARGE, message)


def recognise(image: Any, until: float, limits: Limits) -> str:
    """What Tesseract reads in a picture. Raises `too_large` if it is not done by `until` (monotonic seconds)."""
    import pytesseract

    try:
        # 0 would mean for ever
        text: str = pytesseract.image_to_string(image, timeout=max(0.01, until - time.monotonic()))
    except pytesseract.TesseractError:
        raise
    except RuntimeError:  # pytesseract's way to tell a time-out
        raise too_large(f"Reading the pictures takes longer than PARSE_SECONDS ({limits.seconds:g} s)") from None
    return text.strip()
