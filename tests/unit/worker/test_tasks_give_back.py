"""Tasks give freed memory back soon after their end: slices and compactions."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tests.service import eventually
from worker.machine import freed_memory
from worker.tasks import index, upkeep


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: given.append("back"))
    monkeypatch.setattr(freed_memory, "IDLE_SECONDS", 0.0)
    return given


def test_a_compaction_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: SimpleNamespace(namespace="n"))
    monkeypatch.setattr(upkeep, "compact_in_turn", lambda *_: True)
    monkeypatch.setattr(upkeep, "_compare", lambda _: {"lost vectors": 0})
    assert upkeep._optimize(uuid4())["lost vectors"] == 0
    eventually(lambda: given_back == ["back"], 60)


def test_a_slice_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr("worker.state.index.files.fairest", lambda *_, **__: None)
    monkeypatch.setattr(index, "_index", lambda *_: {"claimed": 1, "more": True})
    assert index._index_fairly(uuid4()) == {"claimed": 1, "more": True}
    eventually(lambda: given_back == ["back"], 60)


def test_a_slice_of_a_small_task_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    settings = SimpleNamespace(session_url="")
    monkeypatch.setattr("worker.tasks.process.resources", lambda: SimpleNamespace(pool=None, settings=settings))
    monkeypatch.setattr(index, "try_exclusive", lambda *_: nullcontext(True))
    monkeypatch.setattr("worker.state.index.files.fairest", lambda *_, **__: None)
    monkeypatch.setattr(index, "_index", lambda *_: {"claimed": 1, "more": True})
    assert index._index_small(uuid4(), "node") == {"claimed": 1, "more": True}
    eventually(lambda: given_back == ["back"], 60)
