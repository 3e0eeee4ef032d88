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
from worker.state.index import tasks


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
    monkeypatch.setattr(tasks, "counts_with_held", lambda _pool, _id, *, include_lost: (8 if include_lost else 5, 9, 0))
    index, query = Mock(keyword_index=keyword_index), Query(query="q", mode=mode)
    found = coverage(Mock(), index, query, 2, vectors_missing=vectors_missing).coverage
    assert (found.indexed_files, found.total_files, found.stale_files) == (indexed, 9, 2)


def test_counts_are_kept_unless_the_folder_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count(1)
    cache: LookupCache[object, tuple[int, int, int]] = LookupCache(lambda _: (next(counted), 9, 0), seconds=1000)
    monkeypatch.setattr(module, "_counts", lambda _: cache)
    resources, index = Mock(), Mock(keyword_index="store")
    found = [
        coverage(
            resources, index, Query(query="q", refresh=refresh), None, vectors_missing=False
        ).coverage.indexed_files
        for refresh in ("none", "none", "if_stale", "wait", "none")
    ]
    assert found == [1, 1, 2, 3, 3]
