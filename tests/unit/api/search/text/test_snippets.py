"""The hits of one file merged: every found character of the file, in order, and none twice."""

from __future__ import annotations

import base64
from itertools import groupby
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.search.text.snippets import ELLIPSIS, LONG_TEXT, grouped, without_bytes
from schemas.queries.search import Hit, Piece, ScoredPiece

FILE, OTHER = UUID(int=1), UUID(int=2)


def hit(text: str, start: int, index: int, score: float = 0.5, line: int = 1, file: UUID = FILE) -> Hit:
    return Hit(
        chunk_id=UUID(int=index + 1000 * file.int),
        chunk_text=text,
        score=score,
        distance=None,
        file_node_id=str(file),
        file_id=file,
        file_id_path="",
        file_path=f"{file.int}.txt",
        file_name=f"{file.int}.txt",
        file_type=None,
        title=None,
        json_pointer=None,
        chunk_index=index,
        total_chunks=9,
        content_hash="",
        start_line=line,
        end_line=line + text.rstrip("\n").count("\n"),
        start_char=start,
        end_char=start + len(text),
        language=None,
        symbol=f"s{index}",
        node_type=None,
        scope=None,
        level=0,
        embedded=True,
        stale=False,
    )


def cut(text: str, spans: list[tuple[int, int]]) -> list[Hit]:
    """The chunks of a text at these spans."""
    return [
        hit(text[start:end], start, index, line=text.count("\n", 0, start) + 1)
        for index, (start, end) in enumerate(spans)
    ]


@st.composite
def chunked(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]], list[int]]:
    """A text, spans that omit only line feeds, and the found ones in any order."""
    text = draw(st.text("ab\nä", min_size=1, max_size=60))
    spans: list[tuple[int, int]] = []
    start = end = 0
    while end < len(text):
        end = draw(st.integers(end + 1, len(text)))
        spans.append((start, end))
        blank = len(text[end:]) - len(text[end:].lstrip("\n"))
        start = draw(st.integers(start + 1, end + blank))
        end = max(start, end)
    found = draw(st.lists(st.integers(0, len(spans) - 1), min_size=1, unique=True))
    return text, spans, found


def expected(text: str, spans: list[tuple[int, int]], found: list[int]) -> str:
    """The covered text, character by character. The gap between two found neighbours is covered."""
    covered = {at for index in found for at in range(*spans[index])}
    covered |= {at for one in found if one + 1 in found for at in range(spans[one][1], spans[one + 1][0])}
    runs = [[at for _, at in run] for _, run in groupby(enumerate(sorted(covered)), lambda pair: pair[1] - pair[0])]
    *first, last = [text[run[0] : run[-1] + 1] for run in runs]
    return "".join(f"{run}{'' if run.endswith(chr(10)) else chr(10)}{ELLIPSIS}\n" for run in first) + last


@given(chunked())
def test_text_is_that_of_the_file_wherever_it_was_found(case: tuple[str, list[tuple[int, int]], list[int]]) -> None:
    text, spans, found = case
    pieces = cut(text, spans)
    (merged,) = grouped([pieces[index] for index in found])
    assert merged.chunk_text == expected(text, spans, found)
    chosen = [spans[index] for index in sorted(found)]
    assert (merged.start_char, merged.end_char) == (chosen[0][0], chosen[-1][1])
    assert [piece.chunk_index for piece in merged.pieces or []] == sorted(found)


def test_pieces_within_a_line_are_parted_by_a_space() -> None:
    (merged,) = grouped(cut("one two three", [(0, 3), (4, 7), (8, 13)]))
    assert merged.chunk_text == "one two three"


def test_a_piece_inside_another_adds_nothing() -> None:
    (merged,) = grouped(cut("one two three", [(0, 13), (4, 7)]))
    assert (merged.chunk_text, len(merged.pieces or [])) == ("one two three", 2)


def test_left_out_text_is_a_line_of_its_own() -> None:
    one, _, three = cut("one\ntwo\nthree", [(0, 3), (4, 7), (8, 13)])
    (merged,) = grouped([three, one])
    assert merged.chunk_text == "one\n…\nthree"
    assert (merged.start_line, merged.end_line) == (1, 3)


def test_files_come_by_their_best_piece_and_are_described_by_it() -> None:
    found = [hit("a", 0, 0, 0.9, file=OTHER), hit("c", 9, 3, 0.9), hit("b", 0, 2, 0.4)]
    first, second = grouped([found[2], found[0], found[1]])
    assert (first.file_id, first.symbol, second.symbol) == (FILE, "s3", "s0")
    assert [(piece.chunk_text, piece.score) for piece in first.pieces or []] == [("b", 0.4), ("c", 0.9)]
    assert [merged.file_id for merged in grouped(found)] == [OTHER, FILE]


def test_queries_are_named_once_in_the_order_in_which_they_found() -> None:
    found = [hit("b", 2, 1), hit("a", 0, 0)]
    found[0].matched_queries, found[1].matched_queries = ["y", "x"], ["x", "z"]
    assert grouped(found)[0].matched_queries == ["y", "x", "z"]


def test_no_hits_are_no_files() -> None:
    assert grouped([]) == []


@pytest.mark.parametrize(("length", "is_shown"), [(LONG_TEXT, True), (LONG_TEXT + 1, False)])
def test_bytes_in_a_long_text_are_not_shown(length: int, is_shown: bool) -> None:
    start = "above ![x](data:image/png;base64,"
    text = start + base64.b64encode(Random(1).randbytes(length)).decode()[: length - len(start)]
    found = hit(text, 0, 0)
    found = found.model_copy(
        update={
            "pieces": [ScoredPiece.model_validate(found, from_attributes=True)],
            "before": [Piece.model_validate(found, from_attributes=True)],
            "after": [],
        }
    )
    shown = without_bytes(found)
    expected = text if is_shown else "above ![x]([base64, 37 kB, image/png]"
    assert [shown.chunk_text, *(piece.chunk_text for piece in [*(shown.pieces or []), *(shown.before or [])])] == [
        expected
    ] * 3
    assert (shown.start_char, shown.end_char) == (0, length)


def test_a_long_text_without_bytes_is_shown() -> None:
    found = hit("many words " * LONG_TEXT, 0, 0)
    assert without_bytes(found).chunk_text == found.chunk_text
