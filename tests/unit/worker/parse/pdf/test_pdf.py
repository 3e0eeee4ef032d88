"""Content of a PDF besides the text of its pages: an outline, forms, comments, and hyphens at the ends of lines."""

from __future__ import annotations

import re

import pypdfium2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.content.document import Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from schemas.reason import Reason
from tests.parsing import parse
from worker.chunk import chunk
from worker.formats import unsupported
from worker.parse import Limits
from worker.parse.ocr import scans
from worker.parse.pdf import outline
from worker.parse.pdf.text_lines import split
from worker.tokens.tokenizers import cl100k

FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[128/hyphentwo]>>>>"

pytestmark = pytest.mark.usefixtures("helper")


def pdf(
    pages: list[list[str]], extra: dict[int, str] | None = None, *, root: str = "", of_page: str = "", info: str = ""
) -> bytes:
    """A file with lines on pages, objects from number 50 on, and additions to the catalogue and the first page."""
    objects = {1: f"<</Type/Catalog/Pages 2 0 R{root}>>", 3: FONT, 4: f"<<{info}>>", **(extra or {})}
    numbers = [10 + 2 * at for at in range(len(pages))]
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects[2] = f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"
    for number, lines in zip(numbers, pages, strict=True):
        drawn = "BT /F 12 Tf 14 TL 72 700 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        more = of_page if number == numbers[0] else ""
        objects[number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {number + 1} 0 R"
            f"/Resources<</Font<</F 3 0 R>>>>{more}>>"
        )
        objects[number + 1] = f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream"
    body = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in objects.items())
    return f"%PDF-1.7\n{body}trailer\n<</Root 1 0 R/Info 4 0 R>>\n%%EOF".encode("latin-1")


def read(data: bytes) -> Document:
    return parse("a.pdf", data, Limits())


def with_outline(pages: list[list[str]], *marks: tuple[str, int]) -> Document:
    """Bookmarks: titles and the pages they lead to, each inside the previous one."""
    extra = {50: f"<</First 51 0 R/Last 51 0 R/Count {len(marks)}>>"}
    for at, (title, page) in enumerate(marks):
        below = f"/First {52 + at} 0 R/Last {52 + at} 0 R/Count 1" if at + 1 < len(marks) else ""
        extra[51 + at] = f"<</Title({title})/Parent {50 + at} 0 R/Dest[{10 + 2 * page} 0 R/Fit]{below}>>"
    return read(pdf(pages, extra, root="/Outlines 50 0 R"))


def test_lines_that_the_outline_names_are_headings() -> None:
    pages = [
        ["Contents", "Tides 2"],
        ["1. The Tides", "They rise.", "# Not named"],
        ["1.1 Of the", "Northern Sea", "They fall."],
    ]
    document = with_outline(pages, ("The tides", 1), ("Of the Northern Sea", 2))
    assert document.markup == "markdown"
    assert document.text == (
        "Contents\nTides 2\n\n# 1. The Tides\n\nThey rise.\n\\# Not named\n\n## 1.1 Of the Northern Sea\n\nThey fall."
    )
    chunks = chunk(document, ChunkSettings(), cl100k(), 8192)
    assert [(c.title, c.page, c.context) for c in chunks[1:]] == [
        ("1. The Tides", 2, ""),
        ("1.1 Of the Northern Sea", 3, "1. The Tides"),
    ]


def test_an_outline_that_names_nothing_on_its_pages_changes_nothing() -> None:
    assert with_outline([["One line", "another"]], ("Elsewhere", 0), ("One", 0)).text == "One line\nanother"


def test_an_entry_of_the_outline_may_lead_nowhere() -> None:
    extra = {
        50: "<</First 51 0 R/Last 52 0 R/Count 2>>",
        51: "<</Title(Nowhere)/Parent 50 0 R/Next 52 0 R>>",
        52: "<</Title(One line)/Parent 50 0 R/Prev 51 0 R/Dest[10 0 R/Fit]>>",
    }
    assert read(pdf([["One line", "another"]], extra, root="/Outlines 50 0 R")).text == "# One line\n\nanother"


def test_an_outline_that_goes_in_circles_ends() -> None:
    extra = {
        50: "<</First 51 0 R/Last 51 0 R/Count 1>>",
        51: "<</Title(One)/Next 51 0 R/First 51 0 R/Dest[10 0 R/Fit]>>",
    }
    assert "One" in read(pdf([["One", "words"]], extra, root="/Outlines 50 0 R")).text


def test_a_page_of_many_lines_and_titles_takes_no_time() -> None:
    begin = [(1, "word" * 50 + str(number)) for number in range(100)]
    assert outline.with_headings("\n".join(["word " * 50] * 5000), begin).count("#") == 0


def form(look: str, drawn: str = "/Tx BMC BT /F 12 Tf 2 5 Td (Ada) Tj ET EMC") -> str:
    field = f"<</Type/Annot/Subtype/Widget/FT/Tx/T(Name)/V(Ada)/Rect[72 600 200 620]{look}>>"
    extra = {50: "<</Fields[51 0 R]>>", 51: field}
    extra[52] = (
        "<</Type/XObject/Subtype/Form/BBox[0 0 128 20]/Resources<</Font<</F 3 0 R>>>>"
        f"/Length {len(drawn)}>>stream\n{drawn}\nendstream"
    )
    return read(pdf([["Your name:"]], extra, root="/AcroForm 50 0 R", of_page="/Annots[51 0 R]")).text


def test_values_of_forms_are_text() -> None:
    assert form("/AP<</N 52 0 R>>") == "Your name:\nAda"
    assert form("") == "Your name:\nAda"


def test_a_value_behind_an_empty_appearance_is_text() -> None:
    assert form("/AP<</N 52 0 R>>", "/Tx BMC EMC") == "Your name:\n\nName: Ada"
    assert form("/AP<</N 52 0 R>>", "1 0 0 RG 0 0 99 19 re S") == "Your name:\n\nName: Ada"


def test_fields_inherit_their_type_and_value() -> None:
    extra = {
        50: "<</Fields[51 0 R]>>",
        51: "<</FT/Tx/T(Owner)/V(Ada)/Kids[52 0 R]>>",
        52: "<</Type/Annot/Subtype/Widget/Parent 51 0 R/Rect[72 600 200 620]>>",
    }
    text = read(pdf([["Boat"]], extra, root="/AcroForm 50 0 R", of_page="/Annots[52 0 R]")).text
    assert text == "Boat\nAda"


def test_comments_stand_behind_their_page() -> None:
    marks = (
        "<</Subtype/Text/T(Ada)/Contents(Is it so?)/Rect[0 0 9 9]>><</Subtype/Popup/Contents(Is it so?)/Rect[0 0 9 9]>>"
    )
    marks += "<</Subtype/Highlight/Contents(Yes)/Rect[0 0 9 9]>><</Subtype/Link/Contents(a link)/Rect[0 0 9 9]>>"
    document = read(pdf([["One"], ["Two"]], of_page=f"/Annots[{marks}]"))
    assert document.text == "One\n\nComment by Ada: Is it so?\nComment: Yes\n\nTwo"
    assert [document.text[start:][:3] for start in document.pages] == ["One", "Two"]


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("untitled", None),
        ("Microsoft Word - tides.doc", None),
        ("Microsoft Word - Tides of 1907", "Tides of 1907"),
        ("(anonymous)", None),
        ("Untitled tides", "Untitled tides"),
    ],
)
def test_what_programs_put_in_a_title_is_none(title: str, kept: str | None) -> None:
    escaped = title.replace("(", "\\(").replace(")", "\\)")
    assert read(pdf([["One"]], info=f"/Title({escaped})")).title == kept


@pytest.mark.parametrize("hyphen", [r"\200", "-"])
def test_words_that_are_broken_at_a_lines_end_are_whole(hyphen: str) -> None:
    assert read(pdf([[f"They are re{hyphen}", "sponsible for the pier"]])).text == "They are responsible for the pier"


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ("by Lucene", "BM25 finds", "by Lucene-BM25 finds"),
        ("a COVID", "19 case", "a COVID-19 case"),
        ("AN INTRO", "DUCTION TO", "AN INTRODUCTION TO"),
        ("a re", "sponsible one", "a responsible one"),
    ],
)
def test_a_name_that_is_broken_at_its_hyphen_keeps_it(first: str, second: str, whole: str) -> None:
    assert read(pdf([[f"{first}-", second]])).text == whole


def mapped(shown: str, characters: dict[str, str]) -> bytes:
    """A page whose drawing codes `shown` have the given meanings."""
    table = "\n".join(
        f"<{ord(code):02X}> <{meaning.encode('utf-16-be').hex()}>" for code, meaning in characters.items()
    )
    table = f"begincmap\n1 begincodespacerange\n<00> <FF>\nendcodespacerange\n{len(characters)} beginbfchar\n{table}"
    table += "\nendbfchar\nendcmap"
    extra = {
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 50 0 R>>",
        50: f"<</Length {len(table)}>>stream\n{table}\nendstream",
    }
    return pdf([[shown]], extra)


#: Codes of letters in the order in which they are drawn, from left to right.
ARABIC = {"M": "م", "S": "س", "L": "ل", "A": "\u0627", "_": "\u0644\u0627", **{letter: letter for letter in "abc "}}


def test_one_glyph_for_lam_and_alef_is_read_in_their_order() -> None:
    assert read(mapped("M_S", ARABIC)).text == "سلام"
    # the article has two glyphs
    assert read(mapped("MLSLA", ARABIC)).text == "السلم"


def test_words_of_two_directions_are_apart_unless_they_touch() -> None:
    near = "abc) Tj 1 0 0 1 {} 700 Tm (SM"
    assert read(mapped(near.format(94), ARABIC)).text == "abc مس"
    assert read(mapped(near.format(91), ARABIC)).text == "abcمس"


@pytest.mark.parametrize(("garbled", "is_kept"), [(3, True), (4, False)])
def test_a_layer_of_signs_that_are_no_text_is_not_indexed(garbled: int, is_kept: bool) -> None:
    data = mapped("a" * (20 - garbled) + "x" * garbled, {"a": "a", "x": "\ue001"})
    if is_kept:
        assert read(data).text == "a" * 17 + "\ue001" * 3
    elif unsupported.programs(("tesseract",)):
        # the drawn letters are those of the codes
        assert "\ue001" not in read(data).text
    else:
        with pytest.raises(FileError) as caught:
            read(data)
        assert caught.value.reason is Reason.NEEDS_OCR


@pytest.mark.parametrize(("lines", "is_scan"), [(99, True), (98, False)])
def test_a_page_of_outlines_is_read_as_a_picture(lines: int, is_scan: bool) -> None:
    drawn = "72 700 m " + "9 9 l " * lines + "S"
    extra = {50: f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream"}
    page = pypdfium2.PdfDocument(pdf([[]], extra, of_page="/Contents 50 0 R"))[0]
    assert scans.is_scan(page, "") is is_scan


@given(st.text(alphabet=st.sampled_from("ab \r\n\f\x85\u2028"), max_size=12) | st.just("a\r\nb\r\n"))
@example("")
@example("a\r\nb")
@example("\r\n\r\n")
@example("\n\r")
def test_lines_are_split_alike_whatever_ends_them(text: str) -> None:
    pattern = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
    texts, starts = split(text)
    assert texts == pattern.findall(text)
    assert starts == [match.start() for match in pattern.finditer(text)]


@given(
    st.lists(st.sampled_from([*map(chr, range(0x20)), "\x7f", "\x80", "a", " ", "\ue000", "\ufffd", "é"]), max_size=30)
)
def test_illegible_text_is_told_alike_in_ascii_and_outside(signs: list[str]) -> None:
    text = "".join(signs)
    number = sum(bool(scans._NON_TEXT.match(sign)) for sign in text)
    expected = number > 0 and number > scans._MAX_NON_TEXT_SHARE * len("".join(text.split()))
    assert scans.is_illegible(text) == expected


@pytest.mark.parametrize("code", range(0x100))
def test_each_sign_is_text_or_not(code: int) -> None:
    assert scans.is_illegible(chr(code)) == bool(scans._NON_TEXT.match(chr(code)))
