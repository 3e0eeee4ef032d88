"""Reads PDF with PDFium: the text of each page, or the text that Tesseract finds if a page is only a picture.

Lines named in the outline become headings; without one, lines that look like headings do. Ruled tables become rows.
Comments follow the text of their page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.wording import list_first
from worker.formats import unsupported
from worker.formats.detect import PDF_HEADER_WITHIN
from worker.parse.limits import Limits
from worker.parse.ocr import scans
from worker.parse.ocr.image import NOTHING, recognise
from worker.parse.pdf import headings, outline, page_annotations
from worker.parse.pdf.characters import PageCharacters
from worker.parse.pdf.looks import add_looks
from worker.parse.pdf.paths import PagePaths
from worker.parse.pdf.rebuilt import rebuilt
from worker.parse.pdf.ruled_tables import add_tables
from worker.parse.pdf.text_lines import ROW, PageLines, join_words, lines_of
from worker.parse.programs import cpu_seconds
from worker.parse.properties import of_pdf
from worker.parse.text.markdown_blocks import laid_out, paragraph

#: Dots per inch at which pages are rendered for Tesseract, and maximum pixels of a page.
_RENDER_DPI = 200
_MAX_PIXELS = 25_000_000
#: Maximum number of damaged pages that a note names.
_MAX_NAMED = 5
#: The beginning of a file, and the bytes before it that PDFium allows.
_HEADER, _FOUND_WITHIN = b"%PDF-", 1024
#: The buffers are created once per process, because PDFium is not thread-safe.
_PATHS, _CHARACTERS = PagePaths(), PageCharacters()


class _PageText(NamedTuple):
    """The lines of a page's text layer, followed by the text of its pictures, and comments."""

    lines: PageLines
    more: str = ""


def read(data: bytes, limits: Limits) -> Document:
    """Return the text of all pages. Raises `FileError`: `encrypted`, `needs_ocr`, `too_large`, `parse_failed`."""
    pdf, is_cut = opened(data)
    with pdf:
        limits.check_pages(len(pdf))
        with suppress(pypdfium2.PdfiumError):
            # before any page is loaded
            pdf.init_forms()
        properties = of_pdf(pdf.get_metadata_dict())
        begin = outline.entries(pdf)
        # labels and values of forms are drawn like headings
        looks = not begin and pdf.get_formtype() == raw.FORMTYPE_NONE
        damaged = list[int]()
        read_pages = list(_pages(pdf, limits, damaged, looks=looks))
    found = headings.levels([page.lines for page in read_pages])
    is_marked = bool(begin or found) or any(ROW in page.lines.starts for page in read_pages)
    texts = (_text(page, number, begin, found, is_marked=is_marked) for number, page in enumerate(read_pages))
    text, pages = laid_out(texts, limits)
    markup = "markdown" if is_marked else "lines"
    title, note = properties.title or None, _note(damaged, is_cut=is_cut)
    return Document(text, "pdf", title=title, markup=markup, pages=pages, properties=properties, note=note)


def _note(damaged: list[int], *, is_cut: bool) -> str:
    """Return a note with the missing parts and the remedy; "" if none are missing."""
    missing = ["the end of the file"] if is_cut else []
    missing += [f"pages {list_first([*map(str, damaged)], _MAX_NAMED)}"] if damaged else []
    return (
        f"Parts of the file are damaged or missing ({'; '.join(missing)}); save it again to find all."
        if missing
        else ""
    )


def _text(
    page: _PageText, number: int, begin: dict[int, outline.Entries], found: headings.Headings, *, is_marked: bool
) -> str:
    """Return the text of a page, as Markdown if the document has headings or tables."""
    if not is_marked:
        shown, more = page.lines.text, page.more
    elif begin:
        shown, more = outline.with_headings(page.lines.text, begin.get(number, [])), paragraph(page.more)
    else:
        shown, more = headings.marked(page.lines, found.get(number, {})), paragraph(page.more)
    return "\n\n".join(filter(None, (shown, more)))


def opened(data: bytes) -> tuple[pypdfium2.PdfDocument, bool]:
    """Return the document, and whether its end is missing. Raises `FileError` (`encrypted`) and `PdfiumError`."""
    data = _from_header(data)
    try:
        return pypdfium2.PdfDocument(data), False
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise FileError(Reason.ENCRYPTED) from None
        mended = rebuilt(data)
        if mended is None:
            raise
        return pypdfium2.PdfDocument(mended), True


def _from_header(data: bytes) -> bytes:
    """Return the file from its header on, which PDFium does not find behind many other bytes. A lost one is added."""
    at = data.find(_HEADER, 0, PDF_HEADER_WITHIN)
    if at < 0:
        return b"%s1.7\n%s" % (_HEADER, data)
    return data[at:] if at >= _FOUND_WITHIN else data


@dataclass(slots=True)
class _Seen:
    """Facts about the pages read so far. They explain why a document has no text."""

    has_text: bool = False
    has_printed_text: bool = False
    scanned: list[str] = field(default_factory=list)
    damage: pypdfium2.PdfiumError | None = None
    hindrance: FileError | None = None

    def check(self) -> None:
        """Raise if no page has text: `needs_ocr` or `no_text` if a page has a picture, else the damage."""
        if self.hindrance and (not self.has_text or (scans.are_stamps(self.scanned) and not self.has_printed_text)):
            raise self.hindrance
        if self.scanned and not self.has_text:
            raise FileError(Reason.NO_TEXT, NOTHING)
        if self.damage and not self.has_text:
            raise self.damage


def _pages(pdf: pypdfium2.PdfDocument, limits: Limits, damaged: list[int], *, looks: bool) -> Iterator[_PageText]:
    """Yield each page, an empty one if it is damaged. On scans, OCR text follows any printed text.

    Numbers of damaged pages are added to `damaged`. Raises after the last page if no page has text.
    """
    seen, size = _Seen(), 0
    cpu_deadline = cpu_seconds() + limits.seconds
    for number in range(len(pdf)):
        try:
            page, comments = page_annotations.flatten(pdf, number, pdf[number])
            lines, text, is_scan = _layer(page, limits, looks=looks)
        except pypdfium2.PdfiumError as error:
            seen.damage = error
            damaged.append(number + 1)
            yield _PageText(PageLines())
            continue
        shown = ""
        if is_scan:
            seen.scanned.append(text)
            shown, missed = _read_pictures(page, text, cpu_deadline, limits)
            seen.hindrance = seen.hindrance or missed
        elif text:
            seen.has_printed_text = True
        more = "\n\n".join(filter(None, (shown, "\n".join(comments))))
        seen.has_text = seen.has_text or bool(text or more)
        size += len(text) + len(more)
        limits.check_characters(size)
        yield _PageText(lines, more)
        page.close()
    seen.check()


def _layer(page: pypdfium2.PdfPage, limits: Limits, *, looks: bool) -> tuple[PageLines, str, bool]:
    """Return the lines and the text of a page's text layer, and whether the page is a scan.

    An illegible layer of a scan has no lines.
    """
    lines = _lines(page, limits, looks=looks)
    text = lines.text
    is_scan = scans.is_scan(page, text)
    return (PageLines(), "", True) if is_scan and scans.is_illegible(text) else (lines, text, is_scan)


def _read_pictures(
    page: pypdfium2.PdfPage, text: str, cpu_deadline: float, limits: Limits
) -> tuple[str, FileError | None]:
    """Return the OCR text of a page's pictures, or the reason for none. Raises on failure only without other text."""
    if not unsupported.programs(("tesseract",)):
        return "", FileError(Reason.NEEDS_OCR)
    try:
        # without a legible text layer, drawn text is read as well
        return _recognise_words(scans.without_text(page) if text else page, cpu_deadline, limits), None
    except FileError as error:
        if not text:
            raise
        return "", error


def _lines(page: pypdfium2.PdfPage, limits: Limits, *, looks: bool) -> PageLines:
    layer = page.get_textpage()
    lines = lines_of(layer, _CHARACTERS.open(layer))
    add_tables(page, _PATHS, _CHARACTERS, lines, limits)
    if looks:
        add_looks(_CHARACTERS, lines)
    layer.close()
    join_words(lines)
    return lines


def _recognise_words(page: pypdfium2.PdfPage, cpu_deadline: float, limits: Limits) -> str:
    width, height = page.get_size()
    scale = min(_RENDER_DPI / 72, (_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
    return recognise(page.render(scale=scale, grayscale=True).to_pil(), cpu_deadline, limits)
