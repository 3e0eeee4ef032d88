"""Tasks that use the store give memory back soon after their end."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tests.service import eventually
from worker.hosts.needs import NeededSettings
from worker.machine.memory import freed_memory
from worker.state.index.turns import ANYTHING
from worker.tasks import index, plan, upkeep


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: given.append("back"))
    monkeypatch.setattr(freed_memory, "IDLE_SECONDS", 0.0)
    return given


def made(**more: Any) -> Any:
    """The resources of a worker that sees all directories."""
    folders = SimpleNamespace(note_host=lambda: None)
    reach = {"reach": lambda _: ANYTHING, "leave_if_out_of_reach": lambda _: False}
    return SimpleNamespace(pool=None, folders=folders, **reach, **more)


def test_a_compaction_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    monkeypatch.setattr("worker.tasks.process.resources", made)
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: SimpleNamespace(namespace="n"))
    monkeypatch.setattr(upkeep, "compact_in_turn", lambda *_: True)
    monkeypatch.setattr(upkeep, "_compare", lambda *_: {"lost vectors": 0})
    assert upkeep._optimize(uuid4())["lost vectors"] == 0
    eventually(lambda: given_back == ["back"], 60)


def test_a_slice_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    monkeypatch.setattr("worker.tasks.process.resources", made)
    monkeypatch.setattr("worker.state.index.turns.fairest", lambda *_, **__: None)
    monkeypatch.setattr(index, "_index", lambda *_, **__: {"claimed": 1, "more": True})
    assert index._index_fairly(uuid4()) == {"claimed": 1, "more": True}
    eventually(lambda: given_back == ["back"], 60)


def test_a_slice_of_a_small_task_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    settings = SimpleNamespace(session_url="")
    monkeypatch.setattr("worker.tasks.process.resources", lambda: made(settings=settings))
    monkeypatch.setattr(index, "try_exclusive", lambda *_: nullcontext(True))
    monkeypatch.setattr("worker.state.index.turns.fairest", lambda *_, **__: None)
    monkeypatch.setattr(index, "_index", lambda *_, **__: {"claimed": 1, "more": True})
    assert index._index_small(uuid4(), "node") == {"claimed": 1, "more": True}
    eventually(lambda: given_back == ["back"], 60)


def test_a_listing_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    settings = SimpleNamespace(database="")
    monkeypatch.setattr("worker.tasks.process.resources", lambda: made(settings=settings))
    monkeypatch.setattr(plan, "keep_renewed", lambda *_: nullcontext())
    found = SimpleNamespace(
        id=uuid4(), index_id=uuid4(), tool_id=uuid4(), project_id="p", request_id=None, namespace="n"
    )
    monkeypatch.setattr(plan, "_begin", lambda *_: found)
    monkeypatch.setattr(plan, "needs_of", lambda _: NeededSettings({}))
    monkeypatch.setattr("worker.state.index.turns.take", lambda *_: None)
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: found)
    monkeypatch.setattr(plan, "_list", lambda *_: True)
    monkeypatch.setattr("worker.dispatch.start_indexing", lambda *_: False)
    assert plan._plan(uuid4()) == {"listed": True}
    eventually(lambda: given_back == ["back"], 60)


def test_a_check_gives_back_its_memory(monkeypatch: pytest.MonkeyPatch, given_back: list[str]) -> None:
    monkeypatch.setattr("worker.tasks.process.resources", made)
    monkeypatch.setattr("worker.state.index.leftovers.forget_removed", lambda *_: None)
    monkeypatch.setattr("worker.state.index.tools.index", lambda *_: SimpleNamespace(namespace="n"))
    monkeypatch.setattr(upkeep, "_compare", lambda *_: {"compared": True})
    assert upkeep._check(uuid4()) == {"compared": True}
    eventually(lambda: given_back == ["back"], 60)
