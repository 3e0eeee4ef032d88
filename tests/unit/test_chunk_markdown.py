from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.document import Chunk
from schemas.source import ChunkSettings
from tests.unit.chunking import cut, new, uncovered


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
def test_sections(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(c.context, c.text) for c in md(text)] == expected


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


MARKS = ["# A", "## B", "text", "", "---", "===", "```", "~~~", "    # x", "- x", "#", "\r", "é字"]


@given(st.lists(st.sampled_from(MARKS)))
@settings(deadline=None, max_examples=120)
def test_nothing_is_lost(lines: list[str]) -> None:
    text = "\n".join(lines)
    if text.strip():
        md(text, size=16, max_tokens=24)
        md(text)
