"""Reads text in the pictures of a document, if the installation asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO

from schemas.content.document import Document
from schemas.errors import FileError
from worker.formats import unsupported
from worker.parse.limits import Limits
from worker.parse.ocr.image import text_and_pages
from worker.parse.programs import cpu_seconds
from worker.parse.text.markdown_blocks import named

#: Minimum pixels of each side: smaller pictures are icons, lines and bullets.
_MIN_SIDE_PIXELS = 40


def with_pictures(document: Document, pictures: Iterable[bytes], limits: Limits) -> Document:
    """Return the document followed by the text of its pictures, each once, up to `limits.ocr_pictures`.

    An unreadable picture is left out. If there are more pictures, or they take longer than `limits.seconds`, a note
    gives the number read.
    """
    if not limits.ocr_pictures or not unsupported.programs(("tesseract",)):
        return document
    cpu_deadline = cpu_seconds() + limits.seconds
    shown, read, left = list[str](), 0, 0
    # slides without other text already have their pictures' text
    known = " ".join(document.text.split())
    for picture in _large(pictures):
        if read == limits.ocr_pictures or cpu_seconds() >= cpu_deadline:
            left += 1
            continue
        read += 1
        try:
            found = " ".join(text_and_pages(picture, cpu_deadline, limits)[0].split())
            shown += [named("Picture", found)] if found not in known else []
        except (FileError, OSError, ValueError):
            # without text, too large, or damaged
            continue
    text = "\n\n".join(filter(None, (document.text, *shown)))
    note = f"Text was sought in {read} of {read + left} pictures; raise OCR_PICTURES or PARSE_SECONDS for more."
    return replace(document, text=text, note=" ".join(filter(None, (document.note, note if left else ""))))


def _large(pictures: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the different pictures that are large enough for text, by their declared size."""
    from PIL import Image

    seen = set[bytes]()
    for picture in pictures:
        digest = hashlib.sha256(picture).digest()
        if digest in seen:
            continue
        seen.add(digest)
        try:
            with Image.open(BytesIO(picture)) as image:
                is_large = min(image.size) >= _MIN_SIDE_PIXELS
        except (OSError, ValueError, Image.DecompressionBombError):
            continue
        if is_large:
            yield picture
