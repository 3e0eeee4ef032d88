"""Charts, diagrams, comments and page headers. Whole samples of them are in tests/data."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZipFile

import docx
import pptx
import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.parsing import parse
from worker.parse.limits import Limits
from worker.parse.office import drawing
from worker.parse.text.markdown_blocks import comment, edges, joined

LIMITS = Limits()
CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MAIN = "http://schemas.openxmlformats.org/drawingml/2006/main"

pytestmark = pytest.mark.usefixtures("helper")


@pytest.mark.parametrize(
    "line", ["", " ", "3", "- 3 -", "Page 3 of 10", "Seite 4", "p. iv", "第3页 共10页", "3 / 9", "Strona 2 z 4", "1.2"]
)
def test_a_page_number_is_no_text(line: str) -> None:
    assert list(edges("footer", [line])) == []


@pytest.mark.parametrize("line", ["Draft 3", "Page of honour", "Pilot's notes, page 3", "頁の歴史"])
def test_what_more_than_counts_pages_is_said_once(line: str) -> None:
    assert list(edges("header", [line, f" {line}\n", "2"])) == [f"Page header: {line}"]


def test_a_comment_says_by_whom_and_where() -> None:
    assert comment("Ada", "one\ntwo") == "Comment by Ada: one two"
    assert comment("", "one", "B2") == "Comment on B2: one"
    assert comment("Ada", " ") == ""


def chart(series: str) -> str:
    part = f'<c:chart xmlns:c="{CHART}" xmlns:a="{MAIN}"><c:barChart>{series}</c:barChart></c:chart>'
    return joined(drawing.chart(part.encode(), LIMITS), LIMITS)


def points(tag: str, *values: object) -> str:
    cached = "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))
    return f"<c:{tag}><c:x>{cached}</c:x></c:{tag}>"


def test_series_may_lack_names_categories_and_values() -> None:
    first = f"<c:ser>{points('tx', 'A')}{points('val', 1)}</c:ser>"
    second = f"<c:ser><c:tx><c:v>B</c:v></c:tx>{points('cat', 'May', 'June')}{points('val', 2, '3.10')}</c:ser>"
    assert chart(first + second) == "|  | A | B |\n| --- | --- | --- |\n| May | 1 | 2 |\n| June |  | 3.1 |"
    assert chart("<c:ser/>") == ""


def test_categories_of_several_levels_are_one() -> None:
    levels = (
        '<c:cat><c:lvl><c:pt idx="0"><c:v>May</c:v></c:pt></c:lvl><c:lvl><c:pt idx="0"><c:v>2024</c:v></c:pt></c:lvl>'
    )
    assert "| 2024 May | 5 |" in chart(f"<c:ser>{levels}</c:cat>{points('val', 5)}</c:ser>")


def test_of_many_points_only_the_series_are_named() -> None:
    assert chart(f"<c:ser>{points('tx', 'Light')}{points('val', *range(500))}</c:ser>") == "Series: Light"


def diagram(links: list[tuple[int, int]]) -> str:
    names = "".join(
        f'<d:pt modelId="{at}" type="{kind}"><d:t><a:p><a:r><a:t>n{at}</a:t></a:r></a:p></d:t></d:pt>'
        for at, kind in enumerate(("doc", "node", "node", "asst"))
    )
    made = "".join(f'<d:cxn srcId="{one}" destId="{other}" srcOrd="x"/>' for one, other in links)
    part = f'<d:dataModel xmlns:d="{DIAGRAM}" xmlns:a="{MAIN}">{names}{made}</d:dataModel>'
    return joined(drawing.diagram(part.encode()), LIMITS)


def test_a_diagram_that_goes_in_circles_ends() -> None:
    assert diagram([(0, 1), (1, 2), (2, 1), (2, 2), (2, 0), (1, 9)]) == "- n1\n  - n2"


def test_points_that_nothing_leads_to_are_not_shown() -> None:
    assert diagram([(2, 3)]) == ""


def written(body: str) -> str:
    """The text read from a Word document with this body."""
    empty = BytesIO()
    docx.Document().save(empty)
    made = BytesIO()
    with ZipFile(empty) as old, ZipFile(made, "w") as new:
        for name in old.namelist():
            whole = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
            new.writestr(name, whole if name == "word/document.xml" else old.read(name))
    return parse("a.docx", made.getvalue(), LIMITS).text


def test_text_that_was_moved_is_read_where_it_stands_now() -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    moved = run.format("The ferry.")
    body = f"<w:p>{run.format('Stays.')}<w:moveFrom>{moved}</w:moveFrom></w:p><w:p><w:moveTo>{moved}</w:moveTo></w:p>"
    deleted = "<w:p><w:del><w:r><w:delText>Gone</w:delText><w:br/></w:r></w:del><w:r><w:t>Kept</w:t></w:r></w:p>"
    assert written(body + deleted) == "Stays.\n\nThe ferry.\n\nKept"


@pytest.mark.parametrize("name", ["customXml", "ins", "moveTo", "smartTag", "sdt"])
def test_text_in_what_wraps_paragraphs_is_read(name: str) -> None:
    wrapped = "<w:p><w:r><w:t>The ferry.</w:t></w:r></w:p>"
    if name == "sdt":
        wrapped = f"<w:sdtContent>{wrapped}</w:sdtContent>"
    assert written(f"<w:{name}>{wrapped}</w:{name}>{wrapped.replace('ferry', 'pier')}").startswith("The ferry.")


def shown(*notes: str | None) -> bytes:
    """Slides without content, with these notes."""
    presentation = pptx.Presentation()
    for note in notes:
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        if note is not None:
            slide.notes_slide.notes_text_frame.text = note
    made = BytesIO()
    presentation.save(made)
    return made.getvalue()


def test_a_page_for_notes_without_any_is_no_text() -> None:
    with pytest.raises(FileError) as caught:
        parse("a.pptx", shown("", " ", None), LIMITS)
    assert caught.value.reason is Reason.NO_TEXT
    assert parse("a.pptx", shown("", "Say it."), LIMITS).text == "# Slide 2\n\nNotes: Say it."
