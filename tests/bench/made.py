"""Documents whose words are known, written anew in every format that has a simple writer.

The writers share nothing with the readers, so that the words of a text are the truth about its documents.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from html import escape
from io import BytesIO

from docx import Document as WordDocument
from openpyxl import Workbook
from PIL import Image, ImageDraw, ImageFont
from pptx import Presentation

from tests import pdfs
from tests.compound import compound, outlook, workbook
from tests.contract.samples import zipped

#: Letters of words. All are in the encoding of the PDF files.
_LETTERS = "aaabcdeeefghiiijklmnooopqrstuuuvwyzéüñßøç"
_SECTIONS, _PARAGRAPHS, _WORDS = 60, 3, 60
_ITEMS, _ROWS, _COLUMNS = 3, 4, 3
#: Lines of a page of PDF, and words of a line.
_PAGE_LINES, _LINE_WORDS = 50, 10
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
_FB2 = "http://www.gribuser.ru/xml/fictionbook/2.0"


@dataclass(frozen=True)
class Section:
    """A part of a text."""

    title: str
    paragraphs: list[str]
    items: list[str]
    rows: list[list[str]]

    @property
    def lines(self) -> list[str]:
        """All its texts but those of the table, the title first."""
        return [self.title, *self.paragraphs, *self.items]

    @property
    def cells(self) -> str:
        return " ".join(cell for row in self.rows for cell in row)

    @property
    def words(self) -> str:
        return " ".join([*self.lines, self.cells])


#: Words for a picture. Readers of pictures expect a language, so they are no random letters.
PICTURE_WORDS = """
The harbour office opens at seven in the morning and closes at nine.
Ships that arrive at night wait beyond the second buoy until dawn.
A pilot comes aboard between the lighthouse and the outer wall.
Every captain reports the draught, the cargo and the number of crew.
Fees depend on the length of a ship and on the days that it stays.
Fishing boats below twelve metres use the small basin in the west.
Water and electricity cost extra and are measured at each berth.
In a storm the bridge stays closed and a red lamp burns above it.
"""


def picture() -> bytes:
    """A PNG file that shows `PICTURE_WORDS`."""
    size = 32
    shown = Image.new("L", (42 * size, 18 * size), 255)
    font = ImageFont.load_default(size)
    ImageDraw.Draw(shown).multiline_text((size, size), PICTURE_WORDS, 0, font, spacing=size // 2)
    out = BytesIO()
    shown.save(out, "PNG")
    return out.getvalue()


def sections() -> list[Section]:
    """The same text at each call."""
    by = random.Random(7)

    def words(count: int) -> str:
        return " ".join("".join(by.choices(_LETTERS, k=by.randint(2, 11))) for _ in range(count))

    return [
        Section(
            words(4).capitalize(),
            [words(_WORDS).capitalize() + "." for _ in range(_PARAGRAPHS)],
            [words(8) for _ in range(_ITEMS)],
            [[words(1) for _ in range(_COLUMNS)] for _ in range(_ROWS)],
        )
        for _ in range(_SECTIONS)
    ]


def _lined(title: str, item: str = "- {}", row: str = " | ", end: str = "\n\n") -> Callable[[list[Section]], bytes]:
    """A writer of a format in which texts stand on lines, with marks around them."""

    def write(text: list[Section]) -> bytes:
        blocks = []
        for section in text:
            blocks += [title.format(section.title, "=" * len(section.title)), *section.paragraphs]
            blocks += ["\n".join(item.format(each) for each in section.items)]
            blocks += ["\n".join(row.join(cells) for cells in section.rows)]
        return end.join(blocks).encode()

    return write


def _nested(form: str, title: str, block: str, item: str, table: str, cell: str) -> Callable[[list[Section]], bytes]:
    """A writer of a format of elements: `form` holds sections, and the others one text each; `table` holds rows."""

    def write(text: list[Section]) -> bytes:
        return form.format("".join(map(section, text))).encode()

    def section(of: Section) -> str:
        parts = [title.format(escape(of.title)), *(block.format(each) for each in of.paragraphs)]
        parts += [item.format(each) for each in of.items]
        opened, row = table.split("…")
        rows = "".join(row.format("".join(cell.format(each) for each in cells)) for cells in of.rows)
        return f"<section>{''.join(parts)}{opened.format(rows)}</section>"

    return write


_html = _nested(
    "<!doctype html><title>T</title>{}", "<h2>{}</h2>", "<p>{}</p>", "<ul><li>{}</li></ul>",
    "<table>{}</table>…<tr>{}</tr>", "<td>{}</td>",
)  # fmt: skip # a part a line says nothing
_docbook = _nested(
    "<article xmlns='http://docbook.org/ns/docbook'>{}</article>", "<title>{}</title>", "<para>{}</para>",
    "<itemizedlist><listitem><para>{}</para></listitem></itemizedlist>",
    "<informaltable><tgroup><tbody>{}</tbody></tgroup></informaltable>…<row>{}</row>", "<entry>{}</entry>",
)  # fmt: skip # a part a line says nothing
_jats = _nested(
    "<article><body>{}</body></article>", "<title>{}</title>", "<p>{}</p>",
    "<list><list-item><p>{}</p></list-item></list>", "<table>{}</table>…<tr>{}</tr>", "<td>{}</td>",
)  # fmt: skip # a part a line says nothing
_fb2 = _nested(
    f"<FictionBook xmlns='{_FB2}'><body>{{}}</body></FictionBook>", "<title><p>{}</p></title>", "<p>{}</p>",
    "<p>{}</p>", "<table>{}</table>…<tr>{}</tr>", "<td>{}</td>",
)  # fmt: skip # a part a line says nothing
_open_text = _nested(
    f"<o:document-content xmlns:o='{_OFFICE}office:1.0' xmlns:t='{_OFFICE}text:1.0' xmlns:b='{_OFFICE}table:1.0'>"
    "<o:body><o:text>{}</o:text></o:body></o:document-content>",
    "<t:h t:outline-level='1'>{}</t:h>", "<t:p>{}</t:p>", "<t:list><t:list-item><t:p>{}</t:p></t:list-item></t:list>",
    "<b:table>{}</b:table>…<b:table-row>{}</b:table-row>", "<b:table-cell><t:p>{}</t:p></b:table-cell>",
)  # fmt: skip # a part a line says nothing


def _opml(text: list[Section]) -> bytes:
    def outline(each: Section) -> str:
        inner = "".join(f"<outline text='{line}'/>" for line in (*each.lines[1:], each.cells))
        return f"<outline text='{each.title}'>{inner}</outline>"

    return f"<opml><body>{''.join(map(outline, text))}</body></opml>".encode()


def _odt(text: list[Section]) -> bytes:
    kind = "application/vnd.oasis.opendocument.text"
    return zipped({"mimetype": kind.encode(), "content.xml": _open_text(text).replace(b"section>", b"t:section>")})


def _fodt(text: list[Section]) -> bytes:
    return _open_text(text).replace(b"section>", b"t:section>").replace(b"document-content", b"document")


def _epub(text: list[Section]) -> bytes:
    container = (
        f'<container xmlns="{_OFFICE}container"><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
    )
    chapters = [f"c{number}.xhtml" for number in range(len(text))]
    items = "".join(f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
    )
    pages = {name: _html([section]) for name, section in zip(chapters, text, strict=True)}
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": container.encode(),
            "b.opf": package.encode(),
            **pages,
        }
    )


def _records(text: list[Section]) -> list[dict[str, object]]:
    return [{"title": each.title, "text": each.paragraphs, "items": each.items, "table": each.rows} for each in text]


def _json(text: list[Section]) -> bytes:
    return json.dumps(_records(text), ensure_ascii=False, indent=1).encode()


def _json_lines(text: list[Section]) -> bytes:
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in _records(text)).encode()


def _keys(form: str) -> Callable[[list[Section]], bytes]:
    def write(text: list[Section]) -> bytes:
        found = [form.format(number, line) for each in text for number, line in enumerate([each.words])]
        return "\n".join(found).encode()

    return write


def _csv(text: list[Section]) -> bytes:
    return "\n".join(f"{each.title},{' '.join([*each.lines[1:], each.cells])}" for each in text).encode()


def _notebook(text: list[Section]) -> bytes:
    cells = [{"cell_type": "markdown", "source": _markdown([each]).decode()} for each in text]
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def _code(text: list[Section]) -> bytes:
    return "\n\n".join(f'def f{n}():\n    """{each.words}"""' for n, each in enumerate(text)).encode()


def _subtitles(text: list[Section]) -> bytes:
    return "\n\n".join(
        f"{n}\n00:00:{n:02},000 --> 00:00:{n + 1:02},000\n{each.words}" for n, each in enumerate(text, 1)
    ).encode()


def _mail(text: list[Section]) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = text[0].title
    # the subject is that of the first section
    message.set_content("\n".join(_body(text)))
    return message


def _body(text: list[Section]) -> list[str]:
    return [line for each in text for line in (*each.lines[each is text[0] :], *map(" ".join, each.rows))]


def _mbox(text: list[Section]) -> bytes:
    return b"\n".join(b"From a@b Mon Jan  1 10:00:00 2024\n" + _mail([each]).as_bytes() for each in text)


def _msg(text: list[Section]) -> bytes:
    return outlook({"0037": text[0].title, "1000": "\r\n".join(_body(text))})


def _rtf(text: list[Section]) -> bytes:
    def escaped(line: str) -> str:
        return "".join(sign if sign.isascii() else f"\\'{sign.encode('cp1252').hex()}" for sign in line)

    lines = [line for each in text for line in (*each.lines, *map("\\tab ".join, each.rows))]
    return ("{\\rtf1\\ansi\\ansicpg1252 " + "\\par\n".join(map(escaped, lines)) + "}").encode()


def _pdf(text: list[Section]) -> bytes:
    lines = []
    for each in text:
        for line in (*each.lines, *map(" ".join, each.rows)):
            words = line.split()
            lines += [" ".join(words[at : at + _LINE_WORDS]) for at in range(0, len(words), _LINE_WORDS)]
    pages = [lines[at : at + _PAGE_LINES] for at in range(0, len(lines), _PAGE_LINES)]
    return pdfs.drawn([pdfs.paragraph(740, page) for page in pages])


def _docx(text: list[Section]) -> bytes:
    document = WordDocument()
    for each in text:
        document.add_heading(each.title, 1)
        for paragraph in each.paragraphs:
            document.add_paragraph(paragraph)
        for item in each.items:
            document.add_paragraph(item, style="List Bullet")
        table = document.add_table(_ROWS, _COLUMNS)
        for row, cells in zip(table.rows, each.rows, strict=True):
            for cell, word in zip(row.cells, cells, strict=True):
                cell.text = word
    return _saved(document)


def _pptx(text: list[Section]) -> bytes:
    slides = Presentation()
    for each in text:
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = each.title
        slide.placeholders[1].text = "\n".join(each.lines[1:])
        slide.notes_slide.notes_text_frame.text = "\n".join(map(" ".join, each.rows))
    return _saved(slides)


def _rows(text: list[Section]) -> list[list[str]]:
    return [row for each in text for row in (*([line] for line in each.lines), *each.rows)]


def _xlsx(text: list[Section]) -> bytes:
    book = Workbook()
    for row in _rows(text):
        book.active.append(row)
    return _saved(book)


def _xls(text: list[Section]) -> bytes:
    return compound({"Workbook": workbook("Sheet", [list(row) for row in _rows(text)])})


def _saved(made: object) -> bytes:
    out = BytesIO()
    made.save(out)  # type: ignore[attr-defined] # libraries without a type in common
    return out.getvalue()


_markdown = _lined("# {}")
#: The writer and the ending of each format.
WRITERS: dict[str, tuple[str, Callable[[list[Section]], bytes]]] = {
    "text": ("txt", _lined("{}")),
    "code": ("py", _code),
    "markdown": ("md", _markdown),
    "rst": ("rst", _lined("{}\n{}")),
    "asciidoc": ("adoc", _lined("== {}", item="* {}")),
    "org": ("org", _lined("* {}")),
    "tex": ("tex", _lined("\\section{{{}}}", item="\\item {}", row=" & ")),
    "json": ("json", _json),
    "jsonl": ("jsonl", _json_lines),
    "yaml": ("yaml", _keys("- key{}: {}")),
    "toml": ("toml", _keys('[[part]]\nkey{} = "{}"')),
    "csv": ("csv", _csv),
    "notebook": ("ipynb", _notebook),
    "html": ("html", _html),
    "xml": ("xml", _nested("<all>{}</all>", "<a>{}</a>", "<b>{}</b>", "<c>{}</c>", "<d>{}</d>…<e>{}</e>", "<f>{}</f>")),
    "docbook": ("dbk", _docbook),
    "jats": ("nxml", _jats),
    "fb2": ("fb2", _fb2),
    "opml": ("opml", _opml),
    "subtitles": ("srt", _subtitles),
    "bibtex": ("bib", _keys("@misc{{key{},\n title = {{{}}}\n}}")),
    "email": ("eml", lambda text: _mail(text).as_bytes()),
    "mbox": ("mbox", _mbox),
    "msg": ("msg", _msg),
    "rtf": ("rtf", _rtf),
    "pdf": ("pdf", _pdf),
    "docx": ("docx", _docx),
    "pptx": ("pptx", _pptx),
    "xls": ("xls", _xls),
    "xlsx": ("xlsx", _xlsx),
    "odt": ("odt", _odt),
    "fodt": ("fodt", _fodt),
    "epub": ("epub", _epub),
}
