"""Numbers of lists and headings in Word, and descriptions of pictures."""

from __future__ import annotations

import docx
import pptx
import pytest
from docx.oxml import parse_xml

from tests.parsing import parse
from tests.unit.worker.parse.office.saving import saved
from tests.unit.worker.parse.office.test_marks import open_text
from worker.parse import Limits
from worker.parse.office.numbering import _FORMS

LIMITS = Limits()
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"

pytestmark = pytest.mark.usefixtures("helper")


def level(at: int, text: str, form: str = "decimal", start: int = 1, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/>'
        "</w:lvl>"
    )


def text_of(body: str, levels: str, instances: str = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>') -> str:
    """The text of a document with these paragraphs, and with a list that has these levels."""
    document = docx.Document()
    root = document.part.numbering_part.element
    for child in list(root):
        root.remove(child)
    made = f'<w:numbering xmlns:w="{WORD}"><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>{instances}'
    root.extend(list(parse_xml(f"{made}</w:numbering>")))
    for element in parse_xml(f'<w:body xmlns:w="{WORD}" xmlns:wp="{DRAWING}">{body}</w:body>'):
        document.element.body.insert_element_before(element, "w:sectPr")
    return parse("a.docx", saved(document), LIMITS).text


def paragraph(text: str, at: int = 0, name: int = 1, style: str = "") -> str:
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    numbered = f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{name}"/></w:numPr>'
    return f"<w:p><w:pPr>{styled}{numbered}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_items_and_headings_have_their_numbers() -> None:
    body = paragraph("Tides", style="Heading1") + paragraph("High", 1, style="Heading2")
    body += paragraph("Low", 1, style="Heading2") + paragraph("Winds", style="Heading1")
    body += paragraph("North", 1, style="Heading2")
    shown = text_of(body, level(0, "%1") + level(1, "%1.%2"))
    assert shown == "# 1 Tides\n\n## 1.1 High\n\n## 1.2 Low\n\n# 2 Winds\n\n## 2.1 North"


def test_a_list_counts_in_its_own_form() -> None:
    body = "".join(paragraph(text, at) for text, at in (("one", 0), ("inner", 1), ("two", 0), ("dot", 2)))
    levels = level(0, "%1.", start=3) + level(1, "(%2)", "lowerLetter") + level(2, "*", "bullet")
    assert text_of(body, levels) == "3. one\n  (a) inner\n4. two\n    - dot"


def test_a_level_without_a_form_or_a_start_counts_in_digits_from_zero() -> None:
    assert (
        text_of(paragraph("a") + paragraph("b"), '<w:lvl w:ilvl="0"><w:lvlText w:val="%1."/></w:lvl>') == "0. a\n1. b"
    )


def test_an_instance_may_start_anew_once() -> None:
    anew = (
        '<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/>'
        "</w:lvlOverride></w:num>"
    )
    plain = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    body = paragraph("a") + paragraph("b", name=2) + paragraph("c", name=2) + paragraph("d", name=9)
    assert text_of(body, level(0, "%1)"), plain + anew) == "1) a\n7) b\n8) c\n- d"


def test_legal_numbers_are_digits_and_cells_have_numbers() -> None:
    rows = f"<w:tr><w:tc>{paragraph('cell', 1)}</w:tc><w:tc>{paragraph('next', 1)}</w:tc></w:tr>"
    body = paragraph("Part") + f"<w:tbl>{rows}</w:tbl>"
    levels = level(0, "%1", "upperRoman") + level(1, "%1.%2", more="<w:isLgl/>")
    assert text_of(body, levels) == "I Part\n\n| 1.1 cell | 1.2 next |\n| --- | --- |"


@pytest.mark.parametrize(
    ("form", "number", "shown"),
    [
        ("upperRoman", 1994, "MCMXCIV"),
        ("lowerRoman", 4000, "4000"),
        ("lowerLetter", 26, "z"),
        ("lowerLetter", 27, "aa"),
        ("upperLetter", 0, "0"),
        ("upperLetter", 10**8, "100000000"),
        ("decimalZero", 7, "07"),
    ],
)
def test_numbers_in_each_form(form: str, number: int, shown: str) -> None:
    assert _FORMS[form](number) == shown


@pytest.mark.parametrize(
    ("described", "shown"),
    [
        ("The pier at low tide", "The pier at low tide"),
        ("A pier. Description automatically generated with low confidence", "A pier."),
        ("pier.png", ""),
        ("C:\\pictures\\the pier.JPG", ""),
        ("Look at pier.png first", "Look at pier.png first"),
    ],
)
def test_descriptions_of_pictures_are_text(described: str, shown: str) -> None:
    picture = f'<w:p><w:r><w:t>See</w:t><w:drawing><wp:inline><wp:docPr id="1" name="x" descr="{described}"/>'
    picture += "</wp:inline></w:drawing></w:r></w:p>"
    assert text_of(picture, "") == f"See {shown}".strip()
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    box = slide.shapes.add_textbox(0, 0, 9, 9)
    box.text_frame.text = "See"
    box._element.nvSpPr.cNvPr.set("descr", described)
    slide_text = parse("a.pptx", saved(presentation), LIMITS).text
    assert slide_text == "\n\n".join(filter(None, ["# Slide 1", f"Picture: {shown}" if shown else "", "See"]))


def test_the_description_of_a_picture_in_open_text_is_read() -> None:
    frame = '<t:p>See<draw:frame><svg:desc xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">'
    assert open_text(f"{frame}the pier</svg:desc></draw:frame></t:p>") == "See the pier"
