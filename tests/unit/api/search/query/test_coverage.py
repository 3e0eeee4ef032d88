"""How many files an answer covers, also while vectors are missing."""

from __future__ import annotations

from itertools import count
from typing import Any
from unittest.mock import Mock

import pytest

from api.http.lookup_cache import LookupCache
from api.search.query import coverage as module
from api.search.query.coverage import coverage
from schemas.queries.search import Query
from worker.state.index import counting
from worker.state.index.counting import NO_COUNTS, IndexCounts


def counted(found: int, **counts: Any) -> IndexCounts:
    """The counts of an index of nine files."""
    return NO_COUNTS._replace(found_files=found, total_files=9, total_chunks=9, **counts)


@pytest.mark.parametrize(
    ("mode", "keyword_index", "vectors_missing", "indexed"),
    [
        # 5 files have all their vectors, 8 are found by their words
        ("hybrid", "postgres", False, 5),
        ("vector", "postgres", False, 5),
        ("keyword", "postgres", False, 8),
        ("keyword", "store", False, 5),
        ("hybrid", "postgres", True, 8),
        ("keyword", "postgres", True, 8),
        ("vector", "postgres", True, 0),
        ("hybrid", "store", True, 0),
        ("keyword", "store", True, 0),
    ],
)
def test_only_files_that_could_be_found_count(
    monkeypatch: pytest.MonkeyPatch, mode: Any, keyword_index: str, vectors_missing: bool, indexed: int
) -> None:
    monkeypatch.setattr(counting, "counts", lambda _pool, _id, *, include_lost: counted(8 if include_lost else 5))
    search, query = Mock(index=Mock(keyword_index=keyword_index), only=None), Query(query="q", mode=mode)
    found = coverage(Mock(), search, query, 2, vectors_missing=vectors_missing).coverage
    assert (found.indexed_files, found.total_files, found.stale_files) == (indexed, 9, 2)


def test_counts_are_kept_unless_the_folder_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)
    cache: LookupCache[object, IndexCounts] = LookupCache(lambda _: counted(next(numbers)), seconds=1000)
    monkeypatch.setattr(module, "_counts", lambda _: cache)
    resources, search = Mock(), Mock(index=Mock(keyword_index="store"), only=None)
    found = [
        coverage(
            resources, search, Query(query="q", refresh=refresh), None, vectors_missing=False
        ).coverage.indexed_files
        for refresh in ("none", "none", "if_stale", "wait", "none")
    ]
    assert found == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("changed", "share"),
    [
        # the first chunk is still to come
        ({"total_chunks": 0}, 0.0),
        ({"total_chunks": 0, "is_open": False}, 1.0),
        # none gets a vector
        ({}, 1.0),
        ({"vector_chunks": 7}, 1.0),
        ({"vectors_due": 3}, 0.0),
        ({"vector_chunks": 1, "vectors_due": 3}, 0.25),
    ],
)
def test_the_share_of_vectors_is_that_of_the_chunks_that_get_one(changed: dict[str, Any], share: float) -> None:
    assert counted(9)._replace(**changed).vector_share == share


@pytest.mark.parametrize(
    ("mode", "due", "notes"),
    [("hybrid", 1, ["meaning_follows"]), ("vector", 1, ["meaning_follows"]), ("keyword", 1, []), ("hybrid", 0, [])],
)
def test_a_note_says_that_vectors_follow_to_who_searches_by_meaning(
    monkeypatch: pytest.MonkeyPatch, mode: Any, due: int, notes: list[str]
) -> None:
    counts = counted(9, vector_chunks=999, vectors_due=due)
    monkeypatch.setattr(counting, "counts", lambda *_, **__: counts)
    found = coverage(
        Mock(),
        Mock(index=Mock(keyword_index="store"), only=None),
        Query(query="q", mode=mode),
        None,
        vectors_missing=False,
    )
    assert [note.code for note in found.notes()] == notes
    # never 100 % before all is there
    assert all(note.detail.startswith("99 % of the chunks") for note in found.notes())
