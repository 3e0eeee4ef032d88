"""Searches side by side: who is slow is left out and told to stop, as all are when the caller leaves."""

from __future__ import annotations

import time
from threading import Event, Thread
from unittest.mock import Mock

import pytest
from psycopg_pool import PoolTimeout

from api.http.disconnect import CallerLeft, Left
from api.search.across.fan_out import Found, Job, _embed, _notes, check_answered, side_by_side
from api.search.across.merge import Part
from schemas.errors import EmbeddingUnauthorized, FilterMatchesNothing, FoldexError, StoreRefused, StoreUnavailable
from schemas.search import Query

NOTHING = Found(Part(None, [], []), None)


class Waiting:
    """A search that goes on until it is told to stop."""

    def __init__(self) -> None:
        self.begun, self.ended = Event(), Event()

    def __call__(self, left: Left) -> Found:
        self.begun.set()
        left.event.wait(30)
        self.ended.set()
        left.check()
        return NOTHING


def failing(_: Left) -> Found:
    raise StoreUnavailable("The store is away.")


def breaking(_: Left) -> Found:
    raise PoolTimeout("couldn't get a connection to postgresql://user:secret@host")


def leaving(_: Left) -> Found:
    raise CallerLeft


def test_the_slow_one_is_left_out_and_told_to_stop() -> None:
    slow = Waiting()
    jobs = [Job("slow", slow), Job("failing", failing), Job("good", lambda _: NOTHING)]
    first, second, third = side_by_side(jobs, time.monotonic() + 0.3, Left())
    assert (first, third) == (None, NOTHING)
    assert isinstance(second, StoreUnavailable)
    assert slow.ended.wait(10)


def test_all_stop_when_the_caller_leaves() -> None:
    searches, left = [Waiting(), Waiting()], Left()

    def leave() -> None:
        for search in searches:
            search.begun.wait(10)
        left.event.set()

    leaving = Thread(target=leave)
    leaving.start()
    with pytest.raises(CallerLeft):
        side_by_side([Job("one", search) for search in searches], time.monotonic() + 30, left)
    leaving.join()
    assert all(search.ended.wait(10) for search in searches)


def test_one_that_breaks_does_not_take_the_others_along() -> None:
    jobs = [Job("breaking", breaking), Job("good", lambda _: NOTHING)]
    ends = side_by_side(jobs, time.monotonic() + 10, Left())
    check_answered(jobs, ends, Query(query="q"))
    assert ends[1] is NOTHING
    (note,) = _notes("breaking", ends[0])
    assert note.code == "tool_failed"
    assert "secret" not in note.detail
    with pytest.raises(PoolTimeout):
        check_answered(jobs[:1], ends[:1], Query(query="q"))


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([None, None], "tool_slow"),
        ([FilterMatchesNothing("none"), None], "tool_slow"),
        ([EmbeddingUnauthorized("no"), None], "tool_slow"),
        ([EmbeddingUnauthorized("no"), StoreUnavailable("away")], "store_unavailable"),
        ([EmbeddingUnauthorized("no"), StoreRefused("no")], "embedding_unauthorized"),
        ([FilterMatchesNothing("none"), StoreRefused("no")], "store_refused"),
        ([FilterMatchesNothing("none"), FilterMatchesNothing("none")], "no_such_files"),
    ],
)
def test_the_error_of_none_that_answers_is_what_helps_most(ends: list[Exception | None], code: str) -> None:
    jobs = [Job("the first", failing), Job("the second", failing)]
    with pytest.raises(FoldexError) as raised:
        check_answered(jobs, ends, Query(query="q"))
    assert raised.value.code == code
    if code != "no_such_files":
        assert "the first" in raised.value.message
        assert "the second" in raised.value.message


def test_one_whose_caller_left_ends_it_all() -> None:
    with pytest.raises(CallerLeft):
        side_by_side([Job("one", leaving), Job("good", lambda _: NOTHING)], time.monotonic() + 10, Left())


def test_who_waits_for_anothers_vectors_stops_when_told_to() -> None:
    left = Left()
    left.event.set()
    with pytest.raises(CallerLeft):
        _embed(Mock(), Mock(), Query(query="q"), Event(), Event(), left)
