"""Parallel searches: slow ones are left out and stopped, and all stop when the caller leaves."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Thread
from unittest.mock import Mock

import pytest
from psycopg import DataError
from psycopg_pool import PoolTimeout

from api.http.disconnect import CallerLeft, Disconnect
from api.search.across import one_tool, side_by_side
from api.search.across.merge import ToolHits
from api.search.across.one_tool import EmbedTurn, embed_in_turn
from api.search.across.side_by_side import Job, JobOutcome, JobResult, check_answered, notes_of, run_side_by_side
from schemas.errors import (
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    FilterMatchesNothing,
    FoldexError,
    StoreRefused,
    StoreUnavailable,
)
from schemas.queries.search import Query
from worker.machine.sharing.fair_threads import FairThreads

NOTHING = JobResult(ToolHits(None, [], []), None)


class Waiting:
    """A search that continues until it is told to stop."""

    def __init__(self) -> None:
        self.begun, self.ended = Event(), Event()

    def __call__(self, left: Disconnect) -> JobResult:
        self.begun.set()
        left.event.wait(30)
        self.ended.set()
        left.check()
        return NOTHING


def failing(_: Disconnect) -> JobResult:
    raise StoreUnavailable("The store is away.")


def breaking(_: Disconnect) -> JobResult:
    raise PoolTimeout("couldn't get a connection to postgresql://user:secret@host")


def leaving(_: Disconnect) -> JobResult:
    raise CallerLeft


def test_the_slow_one_is_left_out_and_told_to_stop() -> None:
    slow = Waiting()
    jobs = [Job("slow", slow), Job("failing", failing), Job("good", lambda _: NOTHING)]
    first, second, third = run_side_by_side(jobs, time.monotonic() + 0.3, Disconnect())
    assert (first, third) == (JobOutcome("slow"), JobOutcome("good", NOTHING))
    assert isinstance(second.error, StoreUnavailable)
    assert slow.ended.wait(10)


def test_all_stop_when_the_caller_leaves() -> None:
    searches, left = [Waiting(), Waiting()], Disconnect()

    def leave() -> None:
        for search in searches:
            search.begun.wait(10)
        left.event.set()

    leaving = Thread(target=leave)
    leaving.start()
    with pytest.raises(CallerLeft):
        run_side_by_side([Job("one", search) for search in searches], time.monotonic() + 30, left)
    leaving.join()
    assert all(search.ended.wait(10) for search in searches)


def test_one_that_breaks_does_not_take_the_others_along() -> None:
    jobs = [Job("breaking", breaking), Job("good", lambda _: NOTHING)]
    broken, good = run_side_by_side(jobs, time.monotonic() + 10, Disconnect())
    check_answered([broken, good], Query(query="q"))
    assert good.result is NOTHING
    (note,) = notes_of(broken)
    assert note.code == "tool_failed"
    assert "secret" not in note.detail
    with pytest.raises(PoolTimeout):
        check_answered([broken], Query(query="q"))


@pytest.mark.parametrize(
    ("errors", "code"),
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
def test_the_error_of_none_that_answers_is_what_helps_most(errors: list[Exception | None], code: str) -> None:
    names = ("the first", "the second")
    outcomes = [JobOutcome(name, error=error) for name, error in zip(names, errors, strict=True)]
    with pytest.raises(FoldexError) as raised:
        check_answered(outcomes, Query(query="q"))
    assert raised.value.code == code
    if code != "no_such_files":
        assert "the first" in raised.value.message
        assert "the second" in raised.value.message


def test_the_error_of_none_that_answers_says_when_to_try_again() -> None:
    errors = {"the first": EmbeddingUnauthorized("no"), "the second": StoreUnavailable("away", retry_after=7)}
    outcomes = [JobOutcome(name, error=error) for name, error in errors.items()]
    with pytest.raises(StoreUnavailable) as raised:
        check_answered(outcomes, Query(query="q"))
    assert raised.value.retry_after == 7
    assert str(raised.value) == raised.value.message


def test_the_only_tool_says_itself_why_it_does_not_answer() -> None:
    with pytest.raises(StoreUnavailable) as raised:
        check_answered([JobOutcome("one", error=StoreUnavailable("away"))], Query(query="q"))
    assert raised.value.message == "away"


def test_a_value_that_postgres_rejects_is_not_the_tools_fault() -> None:
    def rejecting(_: Disconnect) -> JobResult:
        raise DataError

    with pytest.raises(DataError):
        run_side_by_side([Job("one", rejecting), Job("good", lambda _: NOTHING)], time.monotonic() + 10, Disconnect())


def test_what_the_tools_have_instead_is_told_once() -> None:
    errors = [FilterMatchesNothing("none", hint=hint) for hint in (" It has pdf.", " It has md.", " It has pdf.")]
    outcomes = [JobOutcome(f"tool {number}", error=error) for number, error in enumerate(errors)]
    with pytest.raises(FilterMatchesNothing, match=r"widen them\. It has pdf\. It has md\.$"):
        check_answered(outcomes, Query(query="q"))
    assert notes_of(outcomes[1])[0].detail.endswith(" It has md.")


def test_what_has_not_begun_in_time_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = FairThreads("one", 1, 1)
    monkeypatch.setattr(side_by_side, "ACROSS_THREADS", threads)
    first, second = Waiting(), Waiting()
    jobs = [Job("first", first), Job("second", second)]
    assert run_side_by_side(jobs, time.monotonic() + 0.2, Disconnect()) == [JobOutcome("first"), JobOutcome("second")]
    threads.submit("", lambda: None).result(10)
    assert first.ended.is_set()
    assert not second.begun.is_set()


def test_one_whose_caller_left_ends_it_all() -> None:
    with pytest.raises(CallerLeft):
        run_side_by_side([Job("one", leaving), Job("good", lambda _: NOTHING)], time.monotonic() + 10, Disconnect())


def test_who_waits_for_anothers_vectors_stops_when_told_to() -> None:
    left = Disconnect()
    left.event.set()
    with pytest.raises(CallerLeft):
        embed_in_turn(Mock(), Mock(), Query(query="q"), EmbedTurn(previous=Event()), left)


@pytest.mark.parametrize("error", [EmbeddingUnavailable("away"), ValueError("a bug")])
def test_nobody_waits_for_a_turn_that_failed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(one_tool, "embed_queries", Mock(side_effect=error))
    first = EmbedTurn.after(None)
    with suppress(ValueError):
        embed_in_turn(Mock(), Mock(), Query(query="q"), first, Disconnect())
    assert first.done.is_set()
    for turn in (second := EmbedTurn.after(first), EmbedTurn.after(second)):
        embed_in_turn(Mock(), Mock(), Query(query="q"), turn, Disconnect())
        # all of them wait for the first one
        assert turn.previous is first.done
