"""What a search that finds nothing answers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from api.http.disconnect import Disconnect
from api.search.query import no_hits
from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import Findings, IndexSearch
from api.search.query.no_hits import stand_in, without_store
from schemas.errors import FilterMatchesNothing, StoreUnavailable
from schemas.queries.search import Filters, Query
from worker.state.index import file_lookup
from worker.state.search import file_texts, found_chunks
from worker.state.search.file_texts import WaitingFiles

DONE = WaitingFiles(is_listing=False, is_first=True, are_some=False)


def answered(
    monkeypatch: pytest.MonkeyPatch,
    waiting: WaitingFiles,
    *,
    passes: bool = True,
    vectors_missing: bool = False,
    **filters: Any,
) -> list[str]:
    """What stands in for no hits."""
    monkeypatch.setattr(file_texts, "waiting", lambda *_: waiting)
    monkeypatch.setattr(found_chunks, "any_passes", lambda *_: passes)
    monkeypatch.setattr(file_lookup, "kinds", lambda *_: ([], []))
    monkeypatch.setattr(no_hits, "fallback", lambda *_, **__: (["a line"], []))
    request = Query(query="q", filters=Filters(**filters))
    resolved = ResolvedFilters(request.filters, None)
    search: Any = IndexSearch(Mock(), Mock(), Mock(), request, resolved, 10, False, Disconnect())
    return list(map(str, stand_in(search, Findings([], vectors_missing=vectors_missing)).hits))


def test_an_index_that_is_complete_and_finds_nothing_has_no_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, DONE) == []


def test_lines_stand_in_for_lost_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, DONE, vectors_missing=True) == ["a line"]


def test_no_lines_stand_in_where_a_filter_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, DONE, vectors_missing=True, languages=["python"]) == []


@pytest.mark.parametrize(
    ("waiting", "is_error"),
    [(DONE, True), (replace(DONE, is_listing=True, is_first=False), False), (replace(DONE, are_some=True), False)],
)
def test_filters_that_let_nothing_pass_are_an_error_once_no_file_waits(
    monkeypatch: pytest.MonkeyPatch, waiting: WaitingFiles, is_error: bool
) -> None:
    with pytest.raises(FilterMatchesNothing) if is_error else nullcontext():
        assert answered(monkeypatch, waiting, passes=False, languages=["python"]) == []


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
