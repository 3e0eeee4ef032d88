"""Legs grow until they name enough files, and no further."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from api.http.disconnect import CallerLeft, Disconnect
from api.search.chunks import file_depth
from api.search.chunks.file_depth import GROWTH, best_of_each_file, legs_over_files
from api.search.chunks.legs import LegResults, Ranking
from api.search.query.file_filter import FileSelection
from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import IndexSearch
from schemas.queries.search import Filters, Query
from worker.state.index import counting
from worker.state.index.counting import NO_COUNTS, IndexCounts
from worker.state.search import found_chunks
from worker.vectors import Ranked

DEPTH, OF_FIRST = 10, 100


class Folder:
    """A file with `OF_FIRST` hits, then others with one hit each. Notes how deep the legs are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
        self.ids = [f"{number:04}" for number in range(OF_FIRST + others)]
        self.depths: list[int] = []
        monkeypatch.setattr(found_chunks, "file_ids", self.files)
        monkeypatch.setattr(counting, "counts", lambda *_, **__: (1 + others, 1 + others))

    def files(self, _pool: object, _index_id: object, ids: Collection[str]) -> dict[str, UUID]:
        return {id_: UUID(int=max(0, int(id_) - OF_FIRST + 1)) for id_ in ids}

    def legs(self, search: IndexSearch) -> LegResults:
        self.depths.append(search.depth)
        ids = self.ids[: search.depth]
        return LegResults([Ranking("q", "text", Ranked(ids, [1.0] * len(ids)))])

    def found(self, top_k: int, selection: FileSelection | None = None) -> int:
        request = Query(query="q", top_k=top_k, group_by_file=True)
        filters = ResolvedFilters(Filters(), selection)
        search: Any = IndexSearch(Mock(), Mock(), Mock(), request, filters, DEPTH, False, Disconnect())
        return len(set(legs_over_files(search, self.legs)[1].values()))


def test_legs_grow_until_they_name_enough_files(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(monkeypatch, 200)
    assert folder.found(1) == 1
    assert folder.depths == [DEPTH]
    assert folder.found(5) >= 5
    assert folder.depths[1:] == [DEPTH, DEPTH * GROWTH, DEPTH * GROWTH**2]


def test_legs_do_not_grow_beyond_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(monkeypatch, 3)
    assert folder.found(50) == 4
    assert folder.depths == [DEPTH, DEPTH * GROWTH, DEPTH * GROWTH**2]
    # one file can be reached, and one is found
    folder.depths.clear()
    assert folder.found(50, FileSelection(ids=["a"])) == 1
    assert folder.depths == [DEPTH]


def test_legs_do_not_grow_beyond_their_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_depth, "MAX_DEPTH", 2 * DEPTH)
    folder = Folder(monkeypatch, 200)
    assert folder.found(5) == 1
    assert folder.depths == [DEPTH, 2 * DEPTH]


def test_a_leg_that_returned_less_than_it_may_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(monkeypatch, 200)
    folder.ids = folder.ids[: DEPTH - 1]
    folder.found(5)
    assert folder.depths == [DEPTH]


def test_legs_do_not_grow_for_a_caller_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(monkeypatch, 200)
    monkeypatch.setattr(Disconnect, "check", Mock(side_effect=CallerLeft))
    with pytest.raises(CallerLeft):
        folder.found(5)
    assert folder.depths == [DEPTH]


def test_each_of_the_best_files_has_its_best_chunk() -> None:
    files = {"a1": UUID(int=1), "a2": UUID(int=1), "b1": UUID(int=2), "c1": UUID(int=3)}
    assert best_of_each_file(["a1", "gone", "a2", "b1", "c1"], files, 2) == ["a1", "b1"]
    assert best_of_each_file(["a1", "a2"], files, 2) == ["a1"]


def test_one_full_leg_is_enough_to_look_deeper_and_each_depth_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(monkeypatch, 200)
    counted: list[bool] = []

    def counts(*_: object, include_lost: bool) -> IndexCounts:
        counted.append(include_lost)
        return NO_COUNTS._replace(found_files=201, total_files=201)

    monkeypatch.setattr(counting, "counts", counts)

    def legs(search: IndexSearch) -> LegResults:
        found = folder.legs(search)
        short = Ranking("q", "text", Ranked(folder.ids[:1], [1.0]))
        return LegResults([short, *found.rankings], report=search.step("leg", 0.0, search.depth))

    request = Query(query="q", top_k=5, group_by_file=True)
    filters = ResolvedFilters(Filters(), None)
    search: Any = IndexSearch(Mock(), Mock(), Mock(), request, filters, DEPTH, False, Disconnect())
    found, _ = legs_over_files(search, legs)
    assert folder.depths == [each.found for each in found.report.steps] == [DEPTH, DEPTH * GROWTH, DEPTH * GROWTH**2]
    # files that lost their vectors may still be found by their words
    assert counted == [True]
