"""Reads text in pictures, with Tesseract if it is installed."""

from __future__ import annotations

import math
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats import unsupported
from worker.parse.limits import BUSY, Limits, too_large
from worker.parse.ocr.deskew import skew, turned
from worker.parse.programs import Job, cpu_seconds, run
from worker.parse.temporary import check_disk
from worker.parse.text.markdown_blocks import laid_out

#: Pictures are refused by their declared size, before decoding: a pixel takes one byte, and more while converting.
_MAX_PIXELS = 60_000_000
#: Tesseract's limit for the longer side of a picture.
_MAX_SIDE_PIXELS = 32_767
#: A smaller picture is most likely a screenshot, whose letters are half as high as those of a scan.
_SMALL_PIXELS = 1_000_000
_ENLARGEMENT = 2
#: Formats whose frames are pages. In other formats frames are animation, and only the first is read.
_PAGED_FORMATS = ("TIFF",)
#: Half of the range of a shade or an opacity.
_MIDDLE = 128
#: Tesseract's automatic page segmentation.
_AUTOMATIC_LAYOUT = ("--psm", "3")
#: The same with orientation detection, which needs data of its own. With Tesseract's own margin of certainty, 7, short
#: texts that stand on their head stay so.
_ORIENTED_LAYOUT = ("--psm", "1", "-c", "min_orientation_margin=1")
#: Seconds on the clock that Tesseract may take to list its languages.
_LIST_SECONDS = 60.0
#: The straightened picture is used if it yields at least this share of the letters: fewer of them are wrong there.
_MIN_LETTER_SHARE = 0.8
#: Message for pictures without text.
NOTHING = "Tesseract finds no text in the image; if it shows text, save it larger, upright and with more contrast."


def read(data: bytes, limits: Limits) -> Document:
    """Return the text of a picture by page. Raises `FileError`: `too_large`, `needs_ocr`, `no_text`, `parse_failed`."""
    text, pages = text_and_pages(data, cpu_seconds() + limits.seconds, limits)
    return Document(text, "image", pages=pages if len(pages) > 1 else ())


def text_and_pages(data: bytes, cpu_deadline: float, limits: Limits) -> tuple[str, tuple[int, ...]]:
    """Return the text in a picture, and where its pages start. Raises as `read` and `recognise` do."""
    if not unsupported.has_ocr():
        raise FileError(Reason.NEEDS_OCR)
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # `_check_size` sets the limit
    with Image.open(BytesIO(data)) as image:
        frames = getattr(image, "n_frames", 1) if image.format in _PAGED_FORMATS else 1
        limits.check_pages(frames)
        _check_size(image)
        if not unsupported.programs(("tesseract",)):
            raise FileError(Reason.NEEDS_OCR)
        text, pages = laid_out(_frames(image, frames, cpu_deadline, limits), limits)
    if not text.strip():
        raise FileError(Reason.NO_TEXT, NOTHING)
    return text, pages


def _frames(image: Any, count: int, cpu_deadline: float, limits: Limits) -> Iterator[str]:
    for number in range(count):
        image.seek(number)
        _check_size(image)
        yield recognise(_prepared(image), cpu_deadline, limits)


def _check_size(image: Any) -> None:
    width, height = image.size
    if width * height > _MAX_PIXELS or max(width, height) > _MAX_SIDE_PIXELS:
        limit = f"{_MAX_PIXELS:,} in total or {_MAX_SIDE_PIXELS:,} per side"
        message = f"The image has {width:,} by {height:,} pixels, more than {limit}; scale it down or split it."
        raise FileError(Reason.TOO_LARGE, message)


def _prepared(image: Any) -> Any:
    """Return the picture in greyscale, upright by its EXIF data, on a background that contrasts with its text."""
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    grey = _opaque(upright) if upright.has_transparency_data else upright.convert("L")
    if grey.width * grey.height > _SMALL_PIXELS or _ENLARGEMENT * max(grey.size) > _MAX_SIDE_PIXELS:
        return grey
    return grey.resize((grey.width * _ENLARGEMENT, grey.height * _ENLARGEMENT), Image.Resampling.LANCZOS)


def _opaque(image: Any) -> Any:
    """Return a picture with transparency put on white, or on black if its content is light."""
    from PIL import Image, ImageStat

    grey, drawn = image.convert("LA").split()
    visible = drawn.point(lambda alpha: 255 * (alpha >= _MIDDLE))
    lowest, highest = visible.getextrema()
    is_light = lowest < highest and ImageStat.Stat(grey, visible).mean[0] > _MIDDLE
    background = Image.new("L", image.size, 0 if is_light else 255)
    background.paste(grey, mask=drawn)
    return background


def recognise(image: Any, cpu_deadline: float, limits: Limits) -> str:
    """Return the text that Tesseract reads in a picture, in any orientation. A tilted one is also read straightened.

    Raises `FileError`: `too_large` if `cpu_seconds` reaches `cpu_deadline` first, `needs_ocr` if Tesseract lacks
    language data.
    """
    text = _recognise_words(image, cpu_deadline, limits)
    angle = skew(image)
    if not angle:
        return text
    straight = _recognise_words(turned(image, angle, expand=True), cpu_deadline, limits)
    return straight if _letter_count(straight) >= _letter_count(text) * _MIN_LETTER_SHARE else text


def _letter_count(text: str) -> int:
    return sum(map(str.isalnum, text))


def _recognise_words(image: Any, cpu_deadline: float, limits: Limits) -> str:
    language, layout = _languages_and_layout(limits.ocr_languages)
    late = too_large(f"Reading the images takes longer than PARSE_SECONDS ({limits.seconds:g} s)")
    seconds = cpu_deadline - cpu_seconds()
    if seconds <= 0:
        raise late
    # a picture without compression
    check_disk(image.width * image.height * len(image.getbands()))
    with tempfile.TemporaryDirectory() as folder:
        picture, text = f"{folder}/picture.png", f"{folder}/text"
        image.save(picture)
        ended = run(
            Job(
                ("tesseract", picture, text, "-l", language, *layout, "txt"),
                BUSY * seconds,
                cpu_seconds=math.ceil(seconds),
                memory_bytes=limits.memory_bytes,
            )
        )
        if ended.code in (None, -signal.SIGXCPU):
            raise late
        if ended.code:
            message = f"Tesseract cannot read the picture (its exit code is {ended.code}); repair or convert it."
            raise FileError(Reason.PARSE_FAILED, message)
        return Path(f"{text}.txt").read_text("utf-8").strip()


@cache
def _languages_and_layout(languages: str) -> tuple[str, tuple[str, ...]]:
    """Return the languages, and the best layout that Tesseract has data for. Raises `FileError` (`needs_ocr`)."""
    installed = _installed_languages()
    missing = sorted(set(languages.split("+")) - installed)
    if missing:
        message = (
            f"Tesseract has no data for {', '.join(missing)} (OCR_LANGUAGES); install it on the workers, restart them "
            'and reindex with {"full": true}.'
        )
        raise FileError(Reason.NEEDS_OCR, message)
    return languages, _ORIENTED_LAYOUT if "osd" in installed else _AUTOMATIC_LAYOUT


def _installed_languages() -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "languages")
        run(Job(("tesseract", "--list-langs"), _LIST_SECONDS, output=str(output)))
        return {*output.read_text("utf-8").split("\n")}
