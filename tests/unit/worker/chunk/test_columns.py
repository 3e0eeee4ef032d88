"""What a chunk tells besides its text: its title, page, context and tokens; and which texts stay whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schemas.content.document import SEPARATOR_TOKENS, Chunk, CodeDefinition, Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError, NotFound
from tests.unit.worker.chunk.chunking import Characters
from worker.chunk import chunk
from worker.chunk.measure import Measure, measure, trim
from worker.tokens.byte_tables import Offsets

PARAGRAPHS = "\n\n".join(f"Paragraph {number} of a text." for number in range(9))


def cut(document: Document, each: int = 1, max_tokens: int = 8192, **settings: Any) -> list[Chunk]:
    return chunk(document, ChunkSettings(**{"size": 64, "overlap": 0, **settings}), Characters(each), max_tokens)


def test_every_chunk_of_a_text_has_its_title() -> None:
    whole = cut(Document("A text.", "text", title="T"))
    assert [c.title for c in whole] == ["T"]
    kept = cut(Document(PARAGRAPHS, "text", title="T"), threshold=1000)
    assert [(c.title, c.text) for c in kept] == [("T", PARAGRAPHS)]
    parts = cut(Document(PARAGRAPHS, "text", title="T"))
    assert len(parts) > 1
    assert {c.title for c in parts} == {"T"}


def test_a_chunk_is_on_the_page_on_which_it_starts() -> None:
    pages = tuple(PARAGRAPHS.index(f"Paragraph {number}") for number in (2, 5))
    found = cut(Document(PARAGRAPHS, "pdf", pages=pages), size=27)
    assert len(found) == 9
    # what is in front of the first page counts as its text
    assert [c.page for c in found] == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert {c.page for c in cut(Document(PARAGRAPHS, "text"))} == {None}


def test_a_chunk_has_the_tokens_of_its_text_and_its_context() -> None:
    (section,) = cut(Document("# Tides\n\nThe water rises.\n", "markdown", markup="markdown"))
    assert (section.context, section.tokens) == ("", len(section.text))
    parts = cut(Document(f"# Tides\n\n## Spring\n\n{PARAGRAPHS}\n", "markdown", markup="markdown"))[1:]
    assert {c.context for c in parts} == {"Tides > Spring"}
    assert [c.tokens for c in parts] == [len(c.text) + len("Tides > Spring") + SEPARATOR_TOKENS for c in parts]


def test_the_context_of_code_has_a_line_for_each_definition_around_it() -> None:
    text = "class Harbour:\n    def close(self):\n" + "        stop(1)\n" * 30
    found = cut(Document(text, "code", "python", markup="code", definitions=_definitions(text)), max_tokens=600)
    assert "class Harbour:\ndef close(self):" in {c.context for c in found}


def _definitions(text: str) -> tuple[CodeDefinition, ...]:
    body = text.index("    def")
    inner = text.index("        stop")
    return (
        CodeDefinition("Harbour", "class", (), 0, body, len(text), 1, 32, "class Harbour:"),
        CodeDefinition("close", "method", ("Harbour",), body + 4, inner, len(text), 2, 32, "def close(self):"),
    )


def test_parts_of_one_token_have_a_token_each() -> None:
    found = cut(Document("x" * 200, "text"), each=1000, unit="characters", size=16)
    assert len(found) > 10
    assert {c.tokens for c in found} == {1}


@pytest.mark.parametrize(("threshold", "is_whole"), [(len(PARAGRAPHS), False), (len(PARAGRAPHS) + 1, True), (0, False)])
@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_a_text_below_the_threshold_stays_whole(unit: str, threshold: int, is_whole: bool) -> None:
    assert (len(cut(Document(PARAGRAPHS, "text"), unit=unit, threshold=threshold)) == 1) == is_whole


@pytest.mark.parametrize(("more", "is_whole"), [(0, True), (-1, False)])
def test_a_text_below_the_threshold_is_cut_if_the_model_cannot_take_it(more: int, is_whole: bool) -> None:
    # counts near the model's limit are not trusted
    slack = 4 + 64 // 64
    found = cut(Document(PARAGRAPHS, "text"), max_tokens=len(PARAGRAPHS) + slack + more, threshold=10_000)
    assert (len(found) == 1) == is_whole


def test_a_pointer_into_what_is_no_whole_json_is_told() -> None:
    settings = ChunkSettings()
    half = Document('{"a": ', "json", markup="lines", note="line 1 is cut off")
    with pytest.raises(FileError, match="line 1 is cut off"):
        chunk(half, settings, Characters(), 100, "/a")
    assert chunk(half, settings, Characters(), 100)
    with pytest.raises(NotFound):
        chunk(Document("text", "text"), settings, Characters(), 100, "/a")


def measured(text: str, each: int = 1, max_tokens: int = 8192, context: int = 0, **settings: Any) -> Measure:
    tokenizer = Characters(each)
    chunks = ChunkSettings(**{"size": 64, "overlap": 0, **settings})
    return measure(text, chunks, tokenizer, max_tokens, context_tokens=context)


def test_limits_are_those_of_the_settings_and_of_the_model() -> None:
    of_tokens = measured("a" * 100, overlap=32)
    assert (of_tokens.max_tokens, of_tokens.max_chars, of_tokens.by_chars) == (64, 100, False)
    assert (of_tokens.overlap_tokens, of_tokens.overlap_chars) == (32, 100)
    # the overlap shrinks with the chunk, and the context takes at most a quarter and what separates it
    small = measured("a" * 100, max_tokens=40, context=64, overlap=32)
    assert (small.room, small.context_tokens) == (40 - 10 - SEPARATOR_TOKENS, 10)
    assert (small.max_tokens, small.overlap_tokens) == (28, 14)
    assert measured("a" * 100, max_tokens=40).room == 40
    of_chars = measured("a" * 100, unit="characters", size=300, overlap=32, max_tokens=100)
    assert (of_chars.max_chars, of_chars.max_tokens, of_chars.overlap_chars) == (300, 100, 32)
    assert of_chars.by_chars
    # a model that takes far less spaces the cuts
    assert not measured("a" * 100, unit="characters", size=301, max_tokens=100).by_chars


@pytest.mark.parametrize(
    ("length", "surely", "fits"), [(59, True, True), (60, False, True), (64, False, True), (65, False, False)]
)
def test_counts_near_the_limit_are_made_again(length: int, surely: bool, fits: bool) -> None:
    text = "a" * 200
    of = measured(text)
    assert of.slack == 5
    assert bool(of.surely_fit(np.array([0]), np.array([length]))[0]) == surely
    assert of.fits(0, length) == fits
    # white space around it does not count
    padded = f"{' ' * 30}\n{'a' * length}{' ' * 30}"
    assert measured(padded).fits(0, len(padded)) == fits


@pytest.mark.parametrize(("length", "fits"), [(64, True), (65, False)])
def test_a_span_of_as_many_characters_as_allowed_fits(length: int, fits: bool) -> None:
    of = measured("a" * 200, unit="characters")
    assert bool(of.surely_fit(np.array([0]), np.array([length]))[0]) == of.fits(0, length) == fits


def test_a_part_that_has_more_tokens_alone_does_not_fit() -> None:
    class Alone(Characters):
        """A text alone has three tokens more than in a longer one."""

        def starts(self, text: str) -> Offsets:
            return np.arange(0, len(text) + (3 if len(text) < 100 else 0))

    text, tokenizer = "a" * 200, Alone()
    of = measure(text, ChunkSettings(size=64, overlap=0), tokenizer, 8192, context_tokens=0)
    assert [of.fits(0, length) for length in (61, 62, 64)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "start", "end", "kept"),
    [
        ("  a  ", 0, 5, "  a"),
        ("\n\n  a\n", 0, 6, "  a"),
        ("x\n  a b", 2, 7, "  a b"),
        # within a line there is no indentation to keep
        ("x   a b", 1, 7, "a b"),
        ("x \n \n  a", 1, 8, "  a"),
        (" \n ", 0, 3, ""),
    ],
)
def test_a_span_keeps_the_indentation_of_its_first_line(text: str, start: int, end: int, kept: str) -> None:
    first, last = trim(text, start, end)
    assert text[first:last] == kept
