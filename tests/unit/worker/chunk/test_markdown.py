from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.content.document import Chunk
from schemas.content.source import ChunkSettings
from tests.unit.worker.chunk.chunking import cut, new, uncovered
from worker.parse import Limits
from worker.parse.text.markdown import blocks
from worker.parse.text.markdown_blocks import table
from worker.tokens.tokenizers import cl100k


def md(text: str, size: int = 512, max_tokens: int = 8192) -> list[Chunk]:
    chunks = cut(text, "a.md", settings=ChunkSettings(size=size), max_tokens=max_tokens)
    assert uncovered(text, chunks) == ""
    return chunks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Overview\ntext\n\n# Features\n- a\n", [("", "# Overview\ntext"), ("", "# Features\n- a")]),
        ("# Notes\n\nsemantic search", [("", "# Notes\n\nsemantic search")]),
        ("# T\n\n## A\nx\n## B\ny", [("", "# T\n\n## A\nx"), ("T", "## B\ny")]),
        ("intro\n# A\nx", [("", "intro"), ("", "# A\nx")]),
        ("T\n=\nx\n\nS\n-\ny", [("", "T\n=\nx"), ("T", "S\n-\ny")]),
        ("# A\nx\n### B\ny\n## C\nz", [("", "# A\nx"), ("A", "### B\ny"), ("A", "## C\nz")]),
        ("# A\nx\n## Empty\n# B\ny", [("", "# A\nx"), ("", "## Empty\n# B\ny")]),
        ("# A\n```\n# no\n```\n# B", [("", "# A\n```\n# no\n```"), ("", "# B")]),
        ("---\na: 1\n---\n# A\nx", [("", "---\na: 1\n---"), ("", "# A\nx")]),
        ("# A\r\nx\r\n# B\r\ny", [("", "# A\r\nx"), ("", "# B\r\ny")]),
    ],
)
def test_each_section_is_a_chunk_with_its_headings(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(c.context, c.text) for c in md(text)] == expected


def test_front_matter_is_a_block_of_the_first_section_alone() -> None:
    front, first, second = "---\na: 1\n---\n", "# A\n```\nx\n```\n", "# B\n```\ny\n```\n"
    text = front + first + second
    later = len(front + first)
    found = [
        [text[begin:end].strip() for begin, end in blocks(text, *part)] for part in ((0, later), (later, len(text)))
    ]
    assert found == [["---\na: 1\n---", "```\nx\n```"], ["```\ny\n```"]]


def test_the_nearest_heading_is_the_title() -> None:
    assert [c.title for c in md("x\n# A\n## B\ny\n# C\nz")] == [None, "B", "C"]


def test_parts_of_a_long_section_have_its_heading_as_context() -> None:
    text = "# Guide\n\n## Install\n" + "\n".join(f"step {i} of many" for i in range(1_000))
    first, *others = md(text)
    assert first.context == ""
    assert {c.context for c in others} == {"Guide > Install"}
    assert {c.title for c in others} == {"Install"}
    assert all(c.text.startswith("step") for c in others)


def test_no_overlap_across_a_heading() -> None:
    text = "\n".join(f"# H{i}\n" + "some words here\n" * 200 for i in range(5))
    assert all("# H" not in c.text[1:] for c in md(text))


def test_a_context_is_short_and_keeps_the_nearest_headings() -> None:
    levels = "".join(f"{'#' * i} {'long heading ' * 15}{i}\nx\n" for i in range(1, 6))
    last = md(levels + "###### Inner\ny")[-1]
    assert last.context.endswith("5")
    assert last.context.startswith("long heading")
    assert last.tokens < 150


@pytest.mark.parametrize("heading", ["w" * 100_000, "word " * 20_000, "字" * 50_000])
def test_a_heading_of_many_words_is_cut_and_its_context_short(heading: str) -> None:
    chunks = md(f"# {heading}\n" + "text\n" * 300 + "## Next\ntext", size=100, max_tokens=120)
    assert len(chunks[-1].context) < 400


def test_an_edit_in_one_section_leaves_the_others() -> None:
    text = "\n".join(f"# H{i}\n" + "words of the section\n" * 300 for i in range(50))
    assert new(md(text), md(text.replace("# H9\n", "# H9\nnew line\n"))) <= 4


ROWS = [f"| {i} | boat {i * 7919 % 1009} |" for i in range(300)]
TABLES = {
    "pipes around": ["| Day  | Boat\\|Crew |", "|:-----|---:|", *ROWS],
    "pipes between": ["Day | Boat\\|Crew", "--- | ---", *(row.strip("| ") for row in ROWS)],
    "carriage returns": ["| Day | | Boat\\|Crew |\r", "| --- |---| --- |\r", *(f"{row}\r" for row in ROWS)],
    "from an office file": [table([["Day", "Boat|Crew"], *([str(i), f"boat {i}"] for i in range(300))], Limits())],
}


@pytest.mark.parametrize("kind", TABLES)
def test_later_parts_of_a_table_have_its_columns_as_context(kind: str) -> None:
    first, *others, last = md("\n".join(["# Log", "", *TABLES[kind], "", "## After", "text"]), size=128)
    assert (first.context, last.context) == ("", "Log")
    assert len(others) > 5
    assert {c.context for c in others} == {"Log > Day, Boat|Crew"}
    assert not any("Day" in c.text for c in others)


@pytest.mark.parametrize(("indent", "is_table"), [(0, True), (3, True), (4, False)])
def test_rows_between_pipes_are_a_table_unless_they_are_indented_like_code(indent: int, is_table: bool) -> None:
    rows = "".join(f"{' ' * indent}| {number} | boat |\n" for number in range(3))
    text = f"Words.\n\n{rows}\nMore words.\n"
    assert [*blocks(text, 0, len(text))] == ([(8, 8 + len(rows))] if is_table else [])


def test_columns_are_those_of_the_table_a_part_begins_in() -> None:
    fence = ["```", "| no | table |", "| --- | --- |", *ROWS, "```"]
    prose = [f"line {i} of some prose, | which has a pipe" for i in range(300)]
    tables = [line for name in "AB" for line in (f"| {name} | C |", "| - | - |", *ROWS, "")]
    chunks = md("\n".join([*fence, "", *prose, "", *tables, *prose, *ROWS]), size=128)
    before, inside, after = ([c.context for c in part] for part in (chunks[:35], chunks[35:-40], chunks[-40:]))
    assert set(before) == {""}
    assert set(inside) == {"", "A, C", "B, C"}
    assert set(after) == {""}


@pytest.mark.parametrize(
    ("name", "kept"),
    [("column", "column, column"), (r"\|", "|, |"), ("", "Log"), ("w " * 50, "Log"), ("2026", "Log")],
)
def test_the_columns_in_a_context_are_short_names(name: str, kept: str) -> None:
    wide = ["# Log", "|" + f" {name} |" * 200, "|" + " --- |" * 200]
    *_, last = md("\n".join([*wide, *ROWS]), size=128, max_tokens=200)
    assert last.context.startswith(kept)
    assert len(cl100k().starts(last.context)) <= 50


def test_an_edit_in_a_table_costs_few_chunks() -> None:
    rows = TABLES["pipes around"]
    before = md("\n".join(rows), size=64)
    assert len(before) > 50
    assert new(before, md("\n".join([*rows[:99], "| new | row |", *rows[99:]]), size=64)) <= 4


def test_tables_of_pages_have_their_columns_as_context() -> None:
    cells = "".join(f"<tr><td>{i}</td><td>boat {i}</td></tr>" for i in range(300))
    page = f"<h1>Log</h1><table><tr><th>Day</th><th>Boat</th></tr>{cells}</table>"
    first, *others = cut(page, "a.html", settings=ChunkSettings(size=128))
    assert first.text.startswith("# Log\n\n| Day | Boat |")
    assert {c.context for c in others} == {"Log > Day, Boat"}


MARKS = ["# A", "## B", "text", "", "---", "===", "```", "~~~", "    # x", "- x", "#", "\r", "é字"]


@given(st.lists(st.sampled_from(MARKS)))
@settings(max_examples=120)
def test_nothing_is_lost(lines: list[str]) -> None:
    text = "\n".join(lines)
    if text.strip():
        md(text, size=16, max_tokens=24)
        md(text)
