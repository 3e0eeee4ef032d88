"""How long a task still takes, by the kinds of its files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.indexers import remaining
from worker.formats.registry import FORMATS
from worker.state.index.statuses import TaskOfTool
from worker.state.queries import load

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ELAPSED = 60.0
SINCE = NOW - timedelta(seconds=ELAPSED)


def task(**changes: Any) -> TaskOfTool:
    """A task that has read a quarter of its text in a minute, most of which went into chunks."""
    row: dict[str, Any] = {"finished_at": None, "started_at": SINCE, "worked_from": SINCE, "searchable_at": None}
    row |= {f"{kind}_{what}": 0 for kind in ("text", "document", "image") for what in ("left", "read", "ms")}
    row |= {"vectors_due": 0, "embedded_chunks": 0, "text_read": 10_000_000, "text_left": 30_000_000, "text_ms": 6_000}
    return TaskOfTool.model_construct(**{**row, **changes})


def left(**changes: Any) -> float | None:
    return remaining.seconds(task(**changes), NOW)


def words_left(**changes: Any) -> float | None:
    return remaining.words_seconds(task(**changes), NOW)


def test_the_remaining_time_goes_by_the_speed_so_far() -> None:
    assert left() == pytest.approx(3 * ELAPSED)
    assert left(text_left=10_000_000) == pytest.approx(ELAPSED)
    # counts that were noted twice
    assert left(text_left=-5) == 0


@pytest.mark.parametrize("changes", [{"finished_at": NOW}, {"worked_from": None}, {"text_read": 0}])
def test_no_time_is_told_that_is_not_known(changes: dict[str, Any]) -> None:
    assert left(**changes) is None


def test_the_remaining_time_of_vectors_goes_by_those_that_were_embedded() -> None:
    assert left(vectors_due=30, embedded_chunks=10, searchable_at=SINCE) == pytest.approx(3 * ELAPSED)
    # words come first, and nothing is embedded yet
    assert left(vectors_due=30, embedded_chunks=10, searchable_at=None) is None
    assert left(vectors_due=30, embedded_chunks=0, searchable_at=SINCE) is None


def test_the_remaining_time_of_words_ends_once_all_are_searchable() -> None:
    assert words_left() == pytest.approx(3 * ELAPSED)
    for changes in ({"searchable_at": NOW}, {"finished_at": NOW}, {"started_at": None}, {"text_read": 0}):
        assert words_left(**changes) is None


def test_words_are_there_no_later_than_the_run_ends() -> None:
    late = NOW - timedelta(seconds=2 * ELAPSED)
    assert words_left(started_at=late) == left()
    assert words_left(worked_from=late) == words_left() == pytest.approx(3 * ELAPSED)
    assert words_left(worked_from=None) == pytest.approx(3 * ELAPSED)


def test_images_take_their_own_time_whatever_the_text_took() -> None:
    all_text = {"text_left": 0}
    # unknown yet: seconds, not the minutes that the text took
    assert left(**all_text, image_left=200) == pytest.approx(10)
    # without recognition of text
    assert left(**all_text, image_left=200, image_read=50, image_ms=50) == pytest.approx(0.4, abs=0.05)
    # with it
    assert left(**all_text, image_left=200, image_read=50, image_ms=50_000) == pytest.approx(200, rel=0.03)


def test_images_that_were_read_are_no_measure_of_text() -> None:
    # a minute, of which images took 54 seconds
    assert left(image_read=54, image_ms=54_000, text_left=10_000_000) == pytest.approx(6, rel=0.2)
    # text as it usually is, before any was read
    assert left(text_read=0, text_ms=0, image_read=10, image_ms=20) == pytest.approx(30)


def test_documents_are_measured_by_themselves() -> None:
    shown = left(text_left=0, document_left=50_000_000, document_read=50_000_000, document_ms=1_000)
    # a seventh of the time of reading, and so of the minute
    assert shown == pytest.approx(ELAPSED / 7, rel=0.2)


def test_several_processes_divide_the_time() -> None:
    shown = left(text_left=0, text_ms=120_000, image_left=10, image_read=10, image_ms=120_000)
    assert shown == pytest.approx(30, rel=0.05)


@pytest.mark.parametrize("kind", ["text", "document", "image"])
def test_more_work_never_takes_less_time(kind: str) -> None:
    estimates = [left(**{f"{kind}_left": amount}, image_read=3, document_read=4_000) for amount in (0, 10, 10_000)]
    assert estimates == sorted(estimates, key=float)  # type: ignore[arg-type]


def test_the_documents_of_the_counts_are_those_of_the_registry() -> None:
    binary = tuple(row.type for row in FORMATS if row.binary and row.isolated and row.type != "image")
    assert f"IN {binary}" in load("index/counting")["count"].as_string(None)
