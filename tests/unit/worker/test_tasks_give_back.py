"""Tasks of the bulk queue give freed memory back: a slice soon after its end, a compaction if it used much."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

import pytest

from tests.service import eventually
from worker.machine import freed_memory
from worker.tasks import index, upkeep


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(upkeep, "give_back", lambda: given.append("compaction"))
    return given


@pytest.mark.parametrize(
    ("seconds", "expected"), [(upkeep.LONG_SECONDS - 0.01, []), (upkeep.LONG_SECONDS, ["compaction"])]
)
def test_a_long_compaction(
    monkeypatch: pytest.MonkeyPatch, given_back: list[str], seconds: float, expected: list[str]
) -> None:
    times = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(upkeep, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: SimpleNamespace(namespace="n"))
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr(upkeep, "compact_in_turn", lambda *_: True)
    monkeypatch.setattr(upkeep, "_compare", lambda _: {})
    upkeep._optimize(uuid4())
    assert given_back == expected


def test_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: given.append("slice"))
    monkeypatch.setattr(freed_memory, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr("worker.state.index.files.fairest", lambda *_, **__: None)
    monkeypatch.setattr(index, "_index", lambda *_: {"claimed": 1, "more": True})
    assert index._index_fairly(uuid4()) == {"claimed": 1, "more": True}
    eventually(lambda: given == ["slice"], 60)
