"""Chunks that are longer than the model takes: their halves have all characters, at their places."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content.document import Chunk, text_hash
from worker.index.file_states import FileFacts, PreparedFile
from worker.index.halve import FEWEST_TOKENS, halve_chunks, is_cuttable
from worker.state.index.chunks import PlacedChunk
from worker.tokens.tokenizers import cl100k

RUN: Any = Mock(tokenizer=cl100k(), epoch=1)


def file_of(text: str, context: str = "", stem: str = "") -> PreparedFile:
    claim = Mock(id=uuid4(), path="a.md", id_path="a", live_chunks=0)
    lines = text.count("\n")
    chunk = Chunk(text, 5, 5 + len(text), 3, 3 + lines, 900, context, stem=stem)
    rest = Chunk("rest", 7 + len(text), 11 + len(text), 3 + lines, 3 + lines, 1)
    chunks = [
        PlacedChunk(uuid4(), claim.id, number, each, text_hash(each.embedded_text), None, "  " * number, "\n" * number)
        for number, each in enumerate((chunk, rest))
    ]
    return PreparedFile(claim, FileFacts("text"), chunks, embedded=True)


@given(st.text(st.sampled_from("ab \n\tß😀"), min_size=4, max_size=200).filter(lambda text: text.strip() == text))
def test_halves_have_every_character_at_its_place(text: str) -> None:
    document = "12345" + text + "  rest\n"
    file, whole = file_of(text), "12345" + text + "  rest\n"
    while any(len(placed.chunk.text) > 3 for placed in file.chunks if placed.chunk.text != "rest"):
        ids = {placed.id for placed in file.chunks if len(placed.chunk.text) > 3 and placed.chunk.text != "rest"}
        file, new = halve_chunks(RUN, file, ids)
        assert new <= {placed.content_hash for placed in file.chunks}
    assert "12345" + "".join(each.lead + each.chunk.text + each.trail for each in file.chunks) == whole
    assert [placed.index for placed in file.chunks] == list(range(len(file.chunks)))
    assert len({placed.id for placed in file.chunks}) == len(file.chunks)
    for placed in file.chunks:
        each = placed.chunk
        assert document[each.start_char : each.end_char] == each.text
        assert each.text.strip() == each.text != ""
        begin = 3 + document[5 : each.start_char].count("\n")
        assert (each.start_line, each.end_line) == (begin, begin + each.text.count("\n"))


def test_a_context_longer_than_the_text_goes_first() -> None:
    file, _ = halve_chunks(RUN, made := file_of("short text", "a long heading " * 9), {made.chunks[0].id})
    assert [(placed.chunk.text, placed.chunk.context) for placed in file.chunks] == [("short text", ""), ("rest", "")]
    assert file.chunks[0].id != made.chunks[0].id


def test_a_stem_longer_than_the_text_goes_first_and_a_shorter_one_stays_with_both_halves() -> None:
    file, _ = halve_chunks(RUN, made := file_of("short text", stem="a_long_name" * 3), {made.chunks[0].id})
    assert [(placed.chunk.text, placed.chunk.stem) for placed in file.chunks] == [("short text", ""), ("rest", "")]
    file, new = halve_chunks(RUN, made := file_of("some words of a text", stem="parser"), {made.chunks[0].id})
    halves = [placed.chunk for placed in file.chunks[:2]]
    assert [(each.text, each.stem) for each in halves] == [("some words", "parser"), ("of a text", "parser")]
    assert new == {text_hash(f"parser\n\n{each.text}") for each in halves}


@pytest.mark.parametrize(
    ("stem", "context", "kept"),
    [("s" * 4, "c" * 5, True), ("s" * 4, "c" * 6, False), ("s" * 9, "", True), ("s" * 10, "", False)],
)
def test_both_stay_if_the_text_is_longer_than_they_are_together(stem: str, context: str, kept: bool) -> None:
    made = file_of("ten of it!", context, stem)
    file, _ = halve_chunks(RUN, made, {made.chunks[0].id})
    first, *_ = (placed.chunk for placed in file.chunks)
    assert (first.stem, first.context) == ((stem, context) if kept else ("", ""))
    assert (len(file.chunks) == 3) is kept


def test_a_short_chunk_is_not_cut() -> None:
    for tokens, is_long in ((FEWEST_TOKENS, False), (FEWEST_TOKENS + 1, True)):
        placed = file_of("some words").chunks[0]
        object.__setattr__(placed, "chunk", placed.chunk._replace(tokens=tokens))
        assert is_cuttable(placed) is is_long
