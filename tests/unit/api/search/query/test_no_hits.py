"""What a search that finds nothing answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

from api.http.disconnect import Disconnect
from api.search.query import no_hits
from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import Findings, IndexSearch
from api.search.query.no_hits import stand_in, without_store
from schemas.errors import FilterMatchesNothing, StoreUnavailable
from schemas.queries.search import Filters, Query
from schemas.status import TaskStatus
from worker.state.index import file_lookup, tasks
from worker.state.index.tasks import TaskState
from worker.state.search import found_chunks

NO_TASK = None
OPEN = TaskState(uuid4(), TaskStatus.INDEXING, error=None, held_removals=0, finished_at=None)
ENDED = replace(OPEN, status=TaskStatus.READY, finished_at=datetime.now(UTC))


def answered(
    monkeypatch: pytest.MonkeyPatch,
    task: TaskState | None,
    *,
    live: bool = True,
    vectors_missing: bool = False,
    **filters: Any,
) -> tuple[list[str], list[str]]:
    """What stands in for no hits, and the codes of the notes."""
    monkeypatch.setattr(tasks, "newest", lambda *_: task)
    monkeypatch.setattr(tasks, "counts", lambda *_: (1, 2))
    monkeypatch.setattr(found_chunks, "any_live", lambda *_: live)
    monkeypatch.setattr(found_chunks, "any_passes", lambda *_: live)
    monkeypatch.setattr(file_lookup, "kinds", lambda *_: ([], []))
    monkeypatch.setattr(no_hits, "fallback", lambda *_, **__: (["a line"], []))
    request = Query(query="q", filters=Filters(**filters))
    resolved = ResolvedFilters(request.filters, None)
    search: Any = IndexSearch(Mock(), Mock(), Mock(), request, resolved, 10, False, Disconnect())
    found = stand_in(search, Findings([], vectors_missing=vectors_missing))
    return list(map(str, found.hits)), [note.code for note in found.report.notes]


@pytest.mark.parametrize("task", [NO_TASK, OPEN])
def test_lines_stand_in_until_the_first_file_is_indexed(
    monkeypatch: pytest.MonkeyPatch, task: TaskState | None
) -> None:
    assert answered(monkeypatch, task, live=False) == (["a line"], ["not_indexed_yet"])
    assert answered(monkeypatch, task, live=True) == ([], [])


@pytest.mark.parametrize("live", [True, False])
def test_an_index_that_is_ready_and_finds_nothing_has_no_hits(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    assert answered(monkeypatch, ENDED, live=live) == ([], [])


def test_lines_stand_in_for_lost_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, ENDED, vectors_missing=True) == (["a line"], [])


def test_no_lines_stand_in_where_a_filter_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, ENDED, vectors_missing=True, languages=["python"]) == ([], [])
    assert answered(monkeypatch, OPEN, live=False, languages=["python"]) == ([], ["not_indexed_yet"])


def test_filters_that_let_nothing_pass_are_an_error_once_all_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FilterMatchesNothing):
        answered(monkeypatch, ENDED, live=False, languages=["python"])


@pytest.mark.parametrize(
    ("is_here", "asked", "stands_in"),
    [
        (False, {}, True),
        (False, {"mode": "keyword"}, True),
        # words say nothing of meaning, and lines have no attributes
        (False, {"mode": "vector"}, False),
        (False, {"filters": {"languages": ["python"]}}, False),
        # a store on this machine comes back at once, or not at all
        (True, {}, False),
    ],
)
def test_lines_stand_in_for_a_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, is_here: bool, asked: dict[str, Any], stands_in: bool
) -> None:
    monkeypatch.setattr(no_hits, "fallback", lambda _r, _i, words, most, **_: ([f"{words} {most}"], []))
    request = Query.model_validate({"queries": ["one", "other"], "top_k": 7, **asked})
    resolved, away = ResolvedFilters(request.filters, None), StoreUnavailable("away")
    search: Any = IndexSearch(Mock(), Mock(), Mock(is_here=is_here), request, resolved, 10, False, Disconnect())
    if stands_in:
        found = without_store(search, away)
        assert list(map(str, found.hits)) == ["one other 7"]
        assert [note.code for note in found.report.notes] == ["keywords_only"]
    else:
        with pytest.raises(StoreUnavailable):
            without_store(search, away)
