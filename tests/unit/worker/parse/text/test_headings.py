"""Headings of texts that are not Markdown, and how these texts are cut at them."""

from __future__ import annotations

import pytest

from schemas.content.source import ChunkSettings
from tests.contract.samples import of
from tests.parsing import parse
from tests.unit.worker.chunk.chunking import cut
from worker.parse import Limits
from worker.parse.text.rst import headings

SECTIONS = {
    "rst/tides.rst": ("Tides", ["Tides", "Why", "Spring tides", "Neap tides", "Where"], "Tides > Why"),
    "asciidoc/tides.adoc": ("Tides", ["Tides", "Why", "Spring tides", "Where"], "Tides > Why"),
    "org/tides.org": ("Tides", ["Tides", "Why", "Spring tides", "Where"], "Why"),
    "tex/tides.tex": (
        "Tides of the North Sea",
        ["Tides of the North Sea", "Why", "Spring tides", "Where there are tides"],
        "Why",
    ),
}


@pytest.mark.parametrize("path", SECTIONS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_is_cut_at_its_headings(path: str, end: str) -> None:
    title, titles, context = SECTIONS[path]
    text = of(path).decode().replace("\n", end)
    document = parse(path, text.encode(), Limits())
    assert (document.text, document.type, document.title) == (text, path.partition("/")[0], title)
    chunks = cut(text, path, settings=ChunkSettings(size=40, overlap=0))
    assert list(dict.fromkeys(c.title for c in chunks)) == titles
    assert next(c.context for c in chunks if c.title == "Spring tides") == context


def test_levels_are_those_of_the_signs_in_the_order_they_are_seen() -> None:
    text = "An\n~~\n\nBe\n==\n\n===\nC D\n===\n\nEs\n~~\n"
    assert [(found.level, found.title) for found in headings(text)] == [(1, "An"), (2, "Be"), (3, "C D"), (1, "Es")]


@pytest.mark.parametrize(
    "text", ["A longer line\n---\n", "====  ====\na     b\n====  ====\n", "  indented\n  ====\n", "-----\n-----\n"]
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert list(headings(text)) == []


@pytest.mark.parametrize("name", ["a.rst", "a.adoc", "a.org", "a.tex"])
@pytest.mark.parametrize(
    "part", ["=", "==\n", "* ", "\\section{", "\\section{{a}", "a\n=", "----\n", "= \t", "\\title{a\n"]
)
def test_no_text_takes_long(name: str, part: str) -> None:
    assert parse(name, (part * 200_000).encode(), Limits()).text
