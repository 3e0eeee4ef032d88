"""What a process remembers of the files that callers may read."""

from __future__ import annotations

import gc
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast
from uuid import UUID, uuid4
from weakref import ref

import pytest

from api.http.sight import SeenIndex
from api.search.text.visibility import MAX_OF_INDEX, MAX_VISIBLE, visible_files
from schemas.content.acl import Sight
from schemas.queries.metadata import PLAIN
from worker.state.access import acl
from worker.state.access.acl import Version, VisibleFile
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import MetadataState

POOL = cast("Pool", None)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[UUID]:
    """How often all files of each index were read."""
    counted: Counter[UUID] = Counter()

    def read(_pool: Pool, index_id: UUID, *_: object, **__: object) -> list[VisibleFile]:
        counted[index_id] += 1
        return [VisibleFile(UUID(int=number), str(number), None) for number in range(index_id.int % 10_000_000)]

    state = MetadataState(1, uuid4(), datetime.now(UTC))
    monkeypatch.setattr(metadata, "state", lambda *_: state)
    monkeypatch.setattr(acl, "version", lambda *_: Version(1, 1))
    monkeypatch.setattr(acl, "readable", lambda *_: frozenset())
    monkeypatch.setattr(acl, "any_hidden", lambda *_: True)
    monkeypatch.setattr(acl, "visible_files", read)
    return counted


def index_of(files: int) -> SeenIndex:
    id_ = UUID(int=(uuid4().int >> 32) // 10_000_000 * 10_000_000 + files)
    seen = SimpleNamespace(id=id_, sight=Sight(frozenset()), metadata=PLAIN, project_id="p", lists=None)
    return cast("SeenIndex", seen)


def test_a_large_index_is_remembered_beside_small_ones(reads: Counter[UUID]) -> None:
    large, small = index_of(MAX_VISIBLE + 1), index_of(10)
    assert MAX_VISIBLE < MAX_OF_INDEX
    for _ in range(3):
        for index in (large, small):
            visible = visible_files(POOL, index)
            assert visible is not None
            assert len(visible.ids) == index.id.int % 10_000_000
    assert reads == {large.id: 1, small.id: 1}


def test_nothing_of_the_call_that_looked_first_is_remembered(reads: Counter[UUID]) -> None:
    class Check:
        def __call__(self) -> None: ...

    check = Check()
    kept = ref(check)
    assert visible_files(POOL, index_of(1), check) is not None
    del check
    gc.collect()
    assert kept() is None
    assert len(reads) == 1
