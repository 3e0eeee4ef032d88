"""Reads PDF with PDFium: the text of each page, or the text that Tesseract finds if a page is only a picture.

Lines named in the outline become headings. Comments follow the text of their page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pypdfium2
from pypdfium2 import raw

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.formats import unsupported
from worker.parse.limits import Limits
from worker.parse.ocr import scans
from worker.parse.ocr.image import NOTHING, child_cpu_seconds, recognise
from worker.parse.pdf import outline, page_annotations, right_to_left
from worker.parse.properties import of_pdf
from worker.parse.text.markdown_blocks import laid_out

#: Dots per inch at which pages are rendered for Tesseract, and maximum pixels of a page.
_RENDER_DPI = 200
_MAX_PIXELS = 25_000_000
#: A hyphen at a line's end: one that PDFium marks, or one that it does not mark.
_HYPHEN = re.compile(r"[\x02\ufffe]\n?|[\xad\u2010]\n(?<=\w..)(?=\w)", re.DOTALL)
#: What follows a hyphen within a name: no word is divided in front of a digit, or of a capital behind a small letter.
_DIGIT, _CAPITAL = re.compile(r"\d"), re.compile("[A-Z]")
_SMALL = re.compile(r"[^\W\d_A-Z]")


def read(data: bytes, limits: Limits) -> Document:
    """The text of all pages. Raises `FileError`: `encrypted`, `needs_ocr`, `too_large`, `parse_failed`."""
    with _opened(data) as pdf:
        limits.check_pages(len(pdf))
        with suppress(pypdfium2.PdfiumError):
            # before any page is loaded
            pdf.init_forms()
        properties = of_pdf(pdf.get_metadata_dict())
        begin = outline.entries(pdf)
        texts = _texts(pdf, limits)
        if begin:
            texts = (outline.with_headings(text, begin.get(number, [])) for number, text in enumerate(texts))
        text, pages = laid_out(texts, limits)
    markup = "markdown" if begin else "lines"
    return Document(text, "pdf", title=properties.title or None, markup=markup, pages=pages, properties=properties)


def _opened(data: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise FileError(Reason.ENCRYPTED) from None
        raise


def _texts(pdf: pypdfium2.PdfDocument, limits: Limits) -> Iterator[str]:
    """Yield the text of each page, "" for a damaged one. On scans, OCR text follows any printed text.

    If no page has text, raises after the last page: `needs_ocr` or `no_text` if a page has a picture, else the damage.
    """
    cpu_deadline = child_cpu_seconds() + limits.seconds
    has_text, has_printed_text, scanned, damage, hindrance = False, False, [], None, None
    for number in range(len(pdf)):
        try:
            page = pdf[number]
            comments = "\n".join(page_annotations.comments_and_values(pdf, page))
            page = page_annotations.flattened(pdf, number, page)
            text = _text(page)
            is_scan = scans.is_scan(page, text)
            if is_scan and scans.is_illegible(text):
                text = ""
        except pypdfium2.PdfiumError as error:
            damage = error
            yield ""
            continue
        shown = ""
        if is_scan:
            scanned.append(text)
            shown, missed = _shown(page, text, cpu_deadline, limits)
            hindrance = hindrance or missed
        has_printed_text = has_printed_text or bool(text and not is_scan)
        text = "\n\n".join(filter(None, (text, shown, comments)))
        has_text = has_text or bool(text)
        yield text
        page.close()
    if hindrance and (not has_text or (scans.are_stamps(scanned) and not has_printed_text)):
        raise hindrance
    if scanned and not has_text:
        raise FileError(Reason.NO_TEXT, NOTHING)
    if damage and not has_text:
        raise damage


def _shown(page: pypdfium2.PdfPage, text: str, cpu_deadline: float, limits: Limits) -> tuple[str, FileError | None]:
    """The OCR text of a page's pictures, or why there is none. Raises on failure only if the page has no other text."""
    if not unsupported.programs(("tesseract",)):
        return "", FileError(Reason.NEEDS_OCR)
    try:
        # without a legible text layer, what is drawn as text is read as well
        return _recognised(scans.without_text(page) if text else page, cpu_deadline, limits), None
    except FileError as error:
        if not text:
            raise
        return "", error


def _text(page: pypdfium2.PdfPage) -> str:
    layer = page.get_textpage()
    text = right_to_left.repaired(layer, layer.get_text_range())
    layer.close()
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HYPHEN.sub(_hyphen, text).strip()


def _hyphen(at_end: re.Match[str]) -> str:
    """The hyphen if it is part of a name, else nothing."""
    text, start, end = at_end.string, *at_end.span()
    is_name = _DIGIT.match(text, end) or (_CAPITAL.match(text, end) and start and _SMALL.match(text, start - 1))
    return "-" if is_name else ""


def _recognised(page: pypdfium2.PdfPage, cpu_deadline: float, limits: Limits) -> str:
    width, height = page.get_size()
    scale = min(_RENDER_DPI / 72, (_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
    return recognise(page.render(scale=scale, grayscale=True).to_pil(), cpu_deadline, limits)
