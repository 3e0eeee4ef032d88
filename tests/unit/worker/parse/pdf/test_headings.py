"""Headings of a PDF without an outline, found by the size and weight of its lines."""

from __future__ import annotations

import random

import pytest

from schemas.content.document import Document
from tests.parsing import parse
from tests.pdfs import drawn, paragraph, text
from worker.parse import Limits

pytestmark = pytest.mark.usefixtures("helper")

WORDS = ["boats", "moor", "at", "the", "northern", "quay", "while", "storms", "pass", "over", "harbour", "and", "pier"]


def read(*pages: list[str], root: str = "") -> Document:
    return parse("a.pdf", drawn(pages, root), Limits())


def headings(*pages: list[str], root: str = "") -> list[str]:
    return [line for line in read(*pages, root=root).text.split("\n") if line.startswith("#")]


def body(y: float, count: int = 3) -> list[str]:
    return paragraph(y, ["The boats moor at the northern quay, and nobody leaves before the storm"] * count)


def between(*operators: str) -> list[str]:
    """A page on which something stands apart, between two paragraphs."""
    return [*body(700), *operators, *body(600)]


def test_sizes_are_levels() -> None:
    page = [text(72, 760, "Rules of the harbour", 20), text(72, 730, "Boats", 14, "B"), *body(700)]
    document = read([*page, text(72, 640, "Fees", 10, "B"), *body(620)], [text(72, 700, "Storms", 14, "B"), *body(680)])
    assert document.markup == "markdown"
    line = "The boats moor at the northern quay, and nobody leaves before the storm"
    plain = "\n".join([line] * 3)
    assert document.text == (
        f"# Rules of the harbour\n\n## Boats\n\n{plain}\n\n### Fees\n\n{plain}\n\n## Storms\n\n{plain}"
    )
    assert [document.text[start:][:8] for start in document.pages] == ["# Rules ", "## Storm"]


@pytest.mark.parametrize(("size", "found"), [(11.4, []), (11.5, ["# Boats and fees"])])
def test_a_line_must_be_clearly_larger(size: float, found: list[str]) -> None:
    assert headings(between(text(72, 650, "Boats and fees", size))) == found


@pytest.mark.parametrize(("size", "found"), [(9.4, []), (9.5, ["# Boats and fees"])])
def test_a_bold_line_must_be_as_large_as_the_text(size: float, found: list[str]) -> None:
    assert headings(between(text(72, 650, "Boats and fees", size, "B"))) == found


@pytest.mark.parametrize("length", [127, 128, 2_000])
def test_a_font_with_a_long_name_is_not_taken_for_the_one_before(length: int) -> None:
    page = between(text(72, 650, "Boats and fees", 10, "B"), text(72, 630, "Storms and tides"))
    content = drawn([page]).replace(b"/Helvetica/", b"/%s/" % b"H".ljust(length, b"x"))
    found = parse("a.pdf", content, Limits()).text.split("\n")
    assert [line for line in found if line.startswith("#")] == ["# Boats and fees"]


@pytest.mark.parametrize(("gap", "found"), [(15.5, []), (15.7, ["# Boats and fees"])])
def test_a_bold_line_must_be_apart_from_what_is_above(gap: float, found: list[str]) -> None:
    # the last line above has its baseline at 676, and lines are 12 apart
    assert headings(between(text(72, 676 - gap, "Boats and fees", 10, "B"))) == found


@pytest.mark.parametrize(
    ("words", "size", "font"),
    [
        ("Table 3: Fees of boats", 14, "B"),
        ("Figure 2. The pier", 14, "B"),
        ("Abb. 7 Der Hafen", 14, "B"),
        ("- Boats and fees", 14, "B"),
        ("17", 20, "B"),
        ("E = 12 x 14 + 3", 20, "B"),
        ("Boats and fees ....... 12", 14, "B"),
        ("boats that moor here,", 14, "F"),
        ("Name of the owner:", 10, "B"),
        ("Nobody leaves before the storm.", 10, "B"),
        ("T", 30, "B"),
    ],
)
def test_what_is_no_title_is_no_heading(words: str, size: float, font: str) -> None:
    assert headings(between(text(72, 650, words, size, font))) == []
    assert headings(between(text(72, 650, "Boats and fees", size, font))) == ["# Boats and fees"]


def test_a_bold_start_of_a_line_makes_no_heading() -> None:
    line = "BT /B 10 Tf 72 650 Td (Boats) Tj /F 10 Tf ( moor at the quay) Tj ET"
    assert headings(between(line)) == []


def test_bold_cells_of_a_row_are_no_heading() -> None:
    cells = [text(72, 650, "Boat", 10, "B"), text(300, 650, "Fee", 10, "B")]
    assert headings(between(*cells)) == []
    assert headings(between(text(72, 650, "Boat Fee", 10, "B"))) == ["# Boat Fee"]


def test_nothing_stands_out_where_all_is_bold() -> None:
    lines = [text(72, 700 - 30 * at, f"The {word} moor at the northern quay", 10, "B") for at, word in enumerate(WORDS)]
    document = read(lines)
    assert document.markup == "lines"
    assert "#" not in document.text


def test_a_form_has_no_headings() -> None:
    page = [text(72, 760, "Request for a place", 16), *between(text(72, 650, "Owner of the boat", 10, "B"))]
    assert headings(page) == ["# Request for a place", "## Owner of the boat"]
    assert headings(page, root="/AcroForm<</Fields[10 0 R]>>") == []


@pytest.mark.parametrize("lines", [3, 4])
def test_a_paragraph_in_large_letters_is_no_heading(lines: int) -> None:
    title = [text(72, 780 - 18 * at, f"Boats {WORDS[at]}", 15) for at in range(lines)]
    found = headings([*title, *body(700, 30)])
    assert found == (["# Boats boats Boats moor Boats at"] if lines == 3 else [])


@pytest.mark.parametrize(("words", "found"), [(3, 0), (4, 6)])
def test_what_makes_up_a_large_share_of_the_text_is_no_heading(words: int, found: int) -> None:
    page = []
    for at in range(6):
        page += [text(72, 780 - 50 * at, f"Boat {at} ", 15), text(72, 760 - 50 * at, "nets " * words, 10)]
    assert len(headings(page)) == found


@pytest.mark.parametrize(("pages", "runs"), [(2, False), (3, True)])
def test_a_line_at_the_top_of_each_page_runs_along(pages: int, *, runs: bool) -> None:
    made = [[text(72, 780, f"Harbour rules {page}", 14, "B"), *body(700)] for page in range(pages)]
    assert len(headings(*made)) == (0 if runs else pages)


def test_a_turned_line_is_no_heading() -> None:
    assert headings(between("BT /B 14 Tf 0 1 -1 0 40 600 Tm (Boats and fees) Tj ET")) == []
    assert headings(between("BT /B 1 Tf 14 0 0 14 72 650 Tm (Boats and fees) Tj ET")) == ["# Boats and fees"]


def test_a_heading_with_a_broken_word_is_whole() -> None:
    page = [text(72, 780, "The regulations of the har-", 15), text(72, 763, "bour", 15), *body(700, 20)]
    assert headings([*page, text(72, 440, "Later ones", 15), *body(400)]) == [
        "# The regulations of the harbour",
        "# Later ones",
    ]


def test_titles_beside_each_other_are_no_headings() -> None:
    assert headings(between(text(72, 650, "Boats", 14), text(300, 650, "Fees", 14))) == []
    assert headings(between(text(72, 650, "Boats", 14), text(72, 630, "Fees", 14))) == ["# Boats Fees"]


def test_a_bold_line_at_the_end_of_a_page_or_column_is_no_heading() -> None:
    bold = text(72, 100, "Boats and fees", 10, "B")
    assert headings([*body(700, 9), bold]) == []
    assert headings([*body(700, 9), bold, text(300, 700, "Another column of the page")]) == []
    assert headings([*body(700, 9), bold, text(72, 80, "The fees are due in May")]) == ["# Boats and fees"]
    # at the top of a column, what is before it is below
    assert headings([*body(500, 9), text(72, 700, "Boats and fees", 10, "B"), *body(680)]) == ["# Boats and fees"]


def test_sizes_that_hardly_differ_are_one_level() -> None:
    page = between(text(72, 655, "Boats", 15))
    assert headings(page, between(text(72, 650, "Fees", 14.5))) == ["# Boats", "# Fees"]
    assert headings(page, between(text(72, 650, "Fees", 14.3))) == ["# Boats", "## Fees"]


def test_a_line_that_ends_in_small_letters_is_no_heading() -> None:
    line = "BT /F 15 Tf 72 650 Td (Boats) Tj /F 10 Tf ( and fees) Tj ET"
    assert headings(between(line)) == []


def test_a_page_may_hold_a_title_alone() -> None:
    assert headings([text(72, 700, "Rules of the harbour", 24)], body(700, 20)) == ["# Rules of the harbour"]


def test_a_heading_below_a_broken_word_is_found() -> None:
    broken = [text(72, 760, "Nobody leaves the har\\255"), text(72, 748, "bour before the storm")]
    document = read([*broken, text(72, 720, "Boats and fees", 14), *body(700)])
    assert document.text.startswith("Nobody leaves the harbour before the storm\n\n# Boats and fees\n\nThe boats")


@pytest.mark.parametrize("seed", range(8))
def test_random_documents_have_the_headings_that_they_were_made_with(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([8, 10, 12])
    looks = [(size * 2, "F"), (size * 1.5, "B"), (size * 1.2, "F"), (size, "B")][chance.randrange(3) :]
    pages: list[list[str]] = [[]]
    expected: list[tuple[int, str]] = []
    y = 780.0
    for number in range(chance.randrange(5, 25)):
        if y < 200:
            pages[-1].append(text(300, 20, str(len(pages)), size))
            pages.append([])
            y = 780.0
        level = chance.randrange(len(looks))
        title = f"{' '.join(chance.choices(WORDS, k=chance.randrange(1, 5)))} {number}"
        y -= 3 * size
        pages[-1].append(text(72, y, title, *looks[level]))
        expected.append((level, title))
        for _ in range(chance.randrange(2, 8)):
            y -= size * 1.3 + (0 if pages[-1][-1].startswith("BT /F") else size)
            pages[-1].append(text(72, y, " ".join(chance.choices(WORDS, k=12)) + ".", size))
        y -= size
    used = sorted({level for level, _ in expected})
    assert headings(*pages) == [f"{'#' * (used.index(level) + 1)} {title}" for level, title in expected]


def test_characters_without_text_shift_no_heading() -> None:
    heading = text(72, 650, "Boats and fees", 10, "B")
    assert headings([text(72, 712, "First" + r"\002" * 9 + " they moor."), *between(heading)]) == ["# Boats and fees"]
