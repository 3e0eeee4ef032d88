"""The parts of answering that are functions over values: fusion, filters as conditions, texts put together."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.deps import from_cursor, to_cursor
from api.search.filters import Narrowed
from api.search.fusion import reciprocal_ranks
from api.text import _lines, _pointed, joined
from schemas.errors import Invalid, NotFound
from schemas.search import Filters

A, B, C, D = (UUID(int=number) for number in range(4))


def test_first_in_every_ranking_scores_one() -> None:
    assert next(iter(reciprocal_ranks([[A, B], [A, C]]).items())) == (A, 1.0)


def test_agreement_beats_a_single_first_place() -> None:
    assert list(reciprocal_ranks([[A, B, C], [D, B, C]])) == [B, C, A, D]


def test_ties_go_by_id_whatever_the_order_of_rankings() -> None:
    assert list(reciprocal_ranks([[B], [A]])) == list(reciprocal_ranks([[A], [B]])) == [A, B]


@given(st.lists(st.lists(st.sampled_from([A, B, C, D]), unique=True), min_size=1, max_size=3))
def test_scores_lie_between_zero_and_one_and_fall(rankings: list[list[UUID]]) -> None:
    scores = list(reciprocal_ranks(rankings).values())
    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_no_ranking_has_no_winner() -> None:
    assert reciprocal_ranks([[], []]) == {}


def test_filters_become_conditions() -> None:
    filters = Filters(types=["json"], level=0, json_pointer="/a", scope="x")
    found = {(c.attribute, c.op, tuple(c.values)) for c in Narrowed(filters, ["n"]).conditions}
    assert found == {
        ("file_node_id", "in", ("n",)),
        ("file_type", "in", ("json",)),
        ("level", "in", (0,)),
        ("scope", "prefix", ("x",)),
        ("json_pointer", "prefix", ("/a",)),
    }
    assert Narrowed(Filters(), None).conditions == []


def piece(text: str, start: int, *, lead: str = "", trail: str = "", pointer: str | None = None) -> dict[str, Any]:
    """A chunk's row as the text query gives it."""
    end = start + len(text)
    place = {"start_char": start, "end_char": end, "json_pointer": pointer}
    return {"chunk_text": text, "lead": lead, "trail": trail, **place}


TEXT = "\none\ntwo\nthree\n\n"


def test_gaps_and_overlaps_are_joined_exactly() -> None:
    pieces = [piece("one\ntwo", 1, lead="\n"), piece("two\nthree", 5), piece("hree", 10, trail="\n\n")]
    assert joined(pieces) == TEXT


@given(st.text("ab\n", min_size=1, max_size=40), st.data())
def test_any_pieces_that_cover_a_text_give_it_back(text: str, data: st.DataObject) -> None:
    spans = data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), min_size=1, max_size=6))
    pieces, end = [], 0
    for start, stop in sorted((min(span), max(span)) for span in spans):
        pieces.append(piece(text[start:stop], start, lead=text[end:start]))
        end = max(end, stop)
    pieces[-1]["trail"] = text[end:]
    assert joined(pieces) == text


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(None, None, "a\nb\nc\n"), (2, 2, "b\n"), (2, None, "b\nc\n"), (None, 1, "a\n"), (3, 99, "c\n")],
)
def test_lines_are_counted_from_one_and_inclusive(first: int | None, last: int | None, expected: str) -> None:
    start, end = _lines("a\nb\nc\n", first, last)
    assert "a\nb\nc\n"[start:end] == expected


def test_only_line_feeds_end_lines() -> None:
    text = "a\x0bb\x85c\u2028d\re\nf"
    start, end = _lines(text, 2, 2)
    assert text[start:end] == "f"


def test_lines_that_are_not_there_are_refused() -> None:
    with pytest.raises(NotFound, match="3 lines"):
        _lines("a\nb\nc\n", 4, None)
    with pytest.raises(Invalid, match="before"):
        _lines("a\nb\nc\n", 3, 2)


def test_a_pointer_is_what_lies_below_it_or_the_nearest_around_it() -> None:
    pieces = [piece("auth", 10, pointer="/config/auth"), piece("db", 20, pointer="/config/db")]
    assert _pointed(pieces, "/config/db") == (20, 22)
    assert _pointed(pieces, "/config") == (10, 22)
    assert _pointed(pieces, "") == (10, 22)
    assert _pointed(pieces, "/config/auth/login") == (10, 14)
    with pytest.raises(NotFound, match="/config/authority"):
        _pointed(pieces, "/config/authority")


def test_a_cursor_comes_back_as_its_parts() -> None:
    assert from_cursor(to_cursor("ä/b", A), str, UUID) == ("ä/b", A)
    assert from_cursor(None, str, UUID) is None


@pytest.mark.parametrize("cursor", ["", "x", "ä", "W10=", "WzFd", "bnVsbA==", "IjEi", to_cursor("a", "no id")])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="next_cursor"):
        from_cursor(cursor, str, UUID)
