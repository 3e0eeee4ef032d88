from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.content.source import ChunkSettings
from schemas.errors import NotFound
from tests.parsing import parse
from tests.unit.worker.chunk.chunking import cut, new, uncovered
from worker.chunk import chunk
from worker.parse import Limits
from worker.tokens.tokenizers import characters, cl100k

LINES = 6_000
WORDS = ["fox", "jumps", "over", "lazy", "dog", "while", "folders", "chunk", "vectors", "and", "search"]


def line(kind: str, i: int, rng: random.Random) -> str:
    match kind:
        case "numbers":
            return str(i)
        case "prose":
            return " ".join(rng.choices(WORDS, k=rng.randint(3, 16))) + "."
        case "logs":
            return f"2026-01-01 12:{i // 60 % 60:02}:{i % 60:02} INFO worker {i % 7} took {rng.random():.3f}s"
        case "paragraphs":
            return "" if i % 4 == 0 else " ".join(rng.choices(WORDS, k=9))
        case "indented":
            return "    " * (i * 7 % 4) + f"call({i * 31 % 1009})"
    return f"line {i % PERIODS[kind]} of a period"


def made(kind: str) -> list[str]:
    rng = random.Random(7)
    return [line(kind, i, rng) for i in range(LINES)]


PERIODS = {"constant": 1, "periodic": 5, "long period": 97}
KINDS = ["numbers", "prose", "logs", "constant", "periodic", "long period", "paragraphs", "indented"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_at_the_top_costs_few_chunks(kind: str) -> None:
    lines = made(kind)
    before = cut("\n".join(lines))
    after = cut("\n".join(["something new", *lines]))
    assert len(before) > 40
    assert new(before, after) <= 4


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_anywhere_costs_few_chunks(kind: str) -> None:
    lines = made(kind)
    before = cut("\n".join(lines))
    rng = random.Random(kind)
    for edit in ([], ["a new line"], ["two", "lines"]):
        at = rng.randrange(LINES)
        assert new(before, cut("\n".join([*lines[:at], *edit, *lines[at + 1 :]]))) <= 8


def test_two_megabytes_of_lines_without_structure() -> None:
    lines = [f"{i * 7919 % 100_003} {i}" for i in range(160_000)]
    before = cut("\n".join(lines))
    assert new(before, cut("\n".join(["0", *lines]))) <= 4


@pytest.mark.parametrize("kind", ["numbers", "prose", "logs", "constant", "indented"])
def test_most_chunks_are_well_filled(kind: str) -> None:
    filled = np.array([c.tokens for c in cut("\n".join(made(kind)))]) / 512
    assert np.mean(filled >= 0.4) > 0.8


LINES_OF_ALL_KINDS = ["", "  ", "x", "def f():", "    return 1", "}", "word " * 30, "é" * 50, "-" * 90]
texts = st.one_of(
    st.text(),
    st.text(alphabet="ab \n\t\r😀é字.0"),
    st.lists(st.sampled_from(LINES_OF_ALL_KINDS)).map("\n".join),
)
sizes = st.builds(
    ChunkSettings,
    unit=st.sampled_from(["tokens", "characters"]),
    size=st.integers(16, 60),
    overlap=st.integers(0, 80),
    threshold=st.sampled_from([0, 0, 100]),
)


@given(texts.filter(lambda text: text.strip() and "\0" not in text), sizes, st.sampled_from([16, 40, 8192]))
@settings(max_examples=120)
def test_nothing_is_lost_and_limits_hold(text: str, wanted: ChunkSettings, max_tokens: int) -> None:
    text = text.removeprefix("\ufeff")
    if text.strip() and not text.startswith("\ufeff"):
        assert uncovered(text, cut(text, settings=wanted, max_tokens=max_tokens)) == ""


many_lines = st.lists(st.text(alphabet="abc é", max_size=12), min_size=300, max_size=400)


@given(many_lines, st.integers(0, 299), st.text("xyz"))
@settings(max_examples=50)
def test_an_insertion_is_local_for_any_lines(lines: list[str], at: int, line: str) -> None:
    if not "".join(lines).strip():
        return
    small = ChunkSettings(size=32, overlap=4)
    before = cut("\n".join(lines), settings=small)
    after = cut("\n".join([*lines[:at], line, *lines[at:]]), settings=small)
    assert new(before, after) <= 16


@pytest.mark.parametrize("unit", ["a", " b", "-", "字", "0", "e\u0301", "😀", "ab;"])
def test_one_line_of_a_megabyte(unit: str) -> None:
    text = unit * (1_000_000 // len(unit.encode()))
    assert uncovered(text, cut(text)) == ""


def test_one_random_word_of_a_megabyte() -> None:
    text = "".join(random.Random(5).choices("abcdefghijklm", k=1_000_000))
    document = parse("a.txt", text.encode(), Limits())
    assert uncovered(text, chunk(document, ChunkSettings(), cl100k(), 8192)) == ""


def test_five_megabytes_of_blanks_hold_one_word() -> None:
    assert [c.text for c in cut(" " * 5_000_000 + "x")] == ["x"]


def test_an_insertion_into_a_long_line_is_local() -> None:
    rng = random.Random(3)
    line = " ".join(rng.choices(WORDS, k=60_000))
    assert new(cut(line), cut("new words " + line)) <= 4
    assert new(cut(line), cut(line[:150_000] + " new words " + line[150_000:])) <= 4


def test_long_lines_are_cut_between_words() -> None:
    chunks = cut(" ".join(f"word{i}" for i in range(3_000)), settings=ChunkSettings(overlap=0))
    assert all(c.text.startswith("word") for c in chunks)
    assert {c.start_line for c in chunks} == {1}


def test_a_short_text_is_one_chunk() -> None:
    (only,) = cut("\n\n  three small words \r\n\n")
    assert (only.text, only.start_line, only.end_line) == ("  three small words", 3, 3)
    assert (only.context, only.json_pointer, only.scope) == ("", None, None)


def test_carriage_returns_stay_and_are_no_lines() -> None:
    text = "\r\n".join(f"line {i}" for i in range(2_000))
    chunks = cut(text)
    assert uncovered(text, chunks) == ""
    assert chunks[-1].end_line == 2_000
    assert all(c.text.startswith("line") for c in chunks)


def test_paragraphs_are_preferred() -> None:
    paragraphs = ["\n".join([f"First {i}", *["more words follow here"] * 40]) for i in range(40)]
    chunks = cut("\n\n".join(paragraphs), settings=ChunkSettings(overlap=0))
    assert np.mean([c.text.startswith("First") for c in chunks]) == 1


def test_overlap_is_whole_lines_up_to_its_tokens() -> None:
    lines = [f"line number {i}" for i in range(2_000)]
    plain = cut("\n".join(lines), settings=ChunkSettings(overlap=0))
    overlapping = cut("\n".join(lines), settings=ChunkSettings(overlap=20))
    assert [c.end_char for c in plain] == [c.end_char for c in overlapping]
    shared = [a.end_line - b.start_line + 1 for a, b in pairwise(overlapping)]
    assert 1 <= np.median(shared) <= 4
    assert all(c.text.startswith("line") for c in overlapping)


def test_a_text_below_the_threshold_stays_whole_if_the_model_takes_it() -> None:
    text = "some words\n" * 100
    wanted = ChunkSettings(unit="characters", size=100, overlap=0, threshold=2_000)
    assert len(cut(text, settings=wanted)) == 1
    assert len(cut(text, settings=wanted, max_tokens=100)) > 1


def test_other_tokenizers_rule_as_well() -> None:
    text = "\n".join(f"line {i}" for i in range(1_000))
    assert uncovered(text, cut(text, tokenizer=characters(), max_tokens=200)) == ""


def test_pointers_are_for_json() -> None:
    with pytest.raises(NotFound):
        cut("text", pointer="/a")
