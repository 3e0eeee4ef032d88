"""A process of the bulk queue gives freed memory back after work that used much, and only then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from worker.tasks import index, upkeep


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(index, "give_back", lambda: given.append("slice"))
    monkeypatch.setattr(upkeep, "give_back", lambda: given.append("compaction"))
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr("worker.state.index.files.fairest", lambda *_, **__: None)
    return given


@pytest.mark.parametrize(
    ("result", "expected"),
    [({"claimed": 1, "more": True}, ["slice"]), ({"claimed": 0}, []), ({"nothing": "to index"}, [])],
)
def test_a_slice_that_indexed_files(
    monkeypatch: pytest.MonkeyPatch, given_back: list[str], result: dict[str, Any], expected: list[str]
) -> None:
    monkeypatch.setattr(index, "_index", lambda *_: result)
    assert index._index_fairly(uuid4()) == result
    assert given_back == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(upkeep.LONG_SECONDS - 0.01, []), (upkeep.LONG_SECONDS, ["compaction"])]
)
def test_a_long_compaction(
    monkeypatch: pytest.MonkeyPatch, given_back: list[str], seconds: float, expected: list[str]
) -> None:
    times = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(upkeep, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: SimpleNamespace(namespace="n"))
    monkeypatch.setattr(upkeep, "_store", lambda _: SimpleNamespace(optimize=lambda _: None))
    monkeypatch.setattr(upkeep, "_compare", lambda _: {})
    upkeep._optimize(uuid4())
    assert given_back == expected
