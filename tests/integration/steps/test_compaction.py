"""What a run writes is indexed while it goes on, by one process at a time, and that never stops the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import lance
import pytest

from schemas.errors import StoreUnavailable
from tests.integration.steps.site import FILES, Site
from worker.index.pipeline import index_files
from worker.state.exclusive import try_exclusive
from worker.tasks import compaction, process, upkeep
from worker.tasks.compaction import LOOK_SECONDS, REST, CompactionTurns
from worker.vectors.directory_store import DirectoryStore
from worker.vectors.lance.compaction import Thresholds
from worker.vectors.lance.store import LanceStore

RUN = uuid4()


@pytest.fixture
def store(site: Site, monkeypatch: pytest.MonkeyPatch) -> LanceStore:
    """The store of a site, where a run indexes every two chunks."""
    opened = site.resources.store("lancedb", "store")
    assert isinstance(opened, DirectoryStore)
    made = opened.store
    assert isinstance(made, LanceStore)
    monkeypatch.setattr(made, "_thresholds", replace(Thresholds(), rows_while_writing=2))
    monkeypatch.setattr(compaction, "LOOK_SECONDS", 0.0)
    return made


def _batches(site: Site) -> Iterator[int]:
    """Index one file after the other."""
    run = site.worker()
    for number in range(FILES):
        index_files(run, site.claim(run, 1))
        yield number


def _unindexed(site: Site) -> int:
    """Chunks that the index of words does not cover."""
    dataset = lance.dataset(site.resources.home / "lancedb" / f"{site.index.namespace}.lance")
    return int(dataset.stats.index_stats("words_idx")["num_unindexed_rows"])


def test_a_run_indexes_what_it_wrote(site: Site, store: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "REST", 0)
    seen = [_unindexed(site) for _ in CompactionTurns().compacting(site.resources, site.index, RUN, _batches(site))]
    # each is seen before the look that follows it
    assert seen == [1, 2, 1, 2]
    assert _unindexed(site) == 0
    assert site.refresh()
    site.prove()


def test_a_run_goes_on_beside_another_compaction(site: Site, store: LanceStore) -> None:
    with try_exclusive(site.resources.settings.session_url, f"compaction of {site.index.id}"):
        assert len(list(CompactionTurns().compacting(site.resources, site.index, RUN, _batches(site)))) == FILES
    assert _unindexed(site) == FILES
    assert site.refresh()


def test_a_run_goes_on_if_it_cannot_be_compacted(
    site: Site, store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("LanceDB failed.")

    monkeypatch.setattr(store, "optimize", fail)
    assert len(list(CompactionTurns().compacting(site.resources, site.index, RUN, _batches(site)))) == FILES
    assert site.refresh()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, when compactions began, and how long each takes."""
    clock = SimpleNamespace(now=1000.0, begun=[], takes=0.0)

    def compact(*_: Any, writing: bool) -> None:
        assert writing
        clock.begun.append(clock.now)
        clock.now += clock.takes

    monkeypatch.setattr(compaction, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(compaction, "compact", compact)
    return clock


def _slice(turns: CompactionTurns, run: UUID) -> None:
    """Take one batch of a run."""
    nothing: Any = None
    list(turns.compacting(nothing, nothing, run, range(1)))


@pytest.mark.parametrize(("took", "rest"), [(1.0, LOOK_SECONDS), (LOOK_SECONDS, REST * LOOK_SECONDS)])
def test_a_process_compacts_a_tenth_of_its_time_at_most(clock: SimpleNamespace, took: float, rest: float) -> None:
    turns, clock.takes = CompactionTurns(), took
    _slice(turns, RUN)
    clock.now += LOOK_SECONDS
    _slice(turns, RUN)
    _slice(turns, RUN)
    assert len(clock.begun) == 1
    clock.now += rest - 0.01
    _slice(turns, RUN)
    assert len(clock.begun) == 1
    clock.now += 0.02
    _slice(turns, RUN)
    assert len(clock.begun) == 2


def test_a_short_run_is_not_compacted_while_it_writes(clock: SimpleNamespace) -> None:
    turns = CompactionTurns()
    for _ in range(5):
        run = uuid4()
        _slice(turns, run)
        clock.now += LOOK_SECONDS - 0.01
        _slice(turns, run)
    assert clock.begun == []


def test_a_run_is_compacted_while_others_take_turns(clock: SimpleNamespace) -> None:
    turns = CompactionTurns()
    for _ in range(int(LOOK_SECONDS) + 2):
        _slice(turns, RUN)
        _slice(turns, uuid4())
        clock.now += 1.0
    assert clock.begun == [1000.0 + LOOK_SECONDS]


@pytest.mark.parametrize(("others", "begun"), [(2, 1), (3, 0)])
def test_a_process_remembers_some_runs(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, others: int, begun: int
) -> None:
    monkeypatch.setattr(compaction, "MAX_RUNS", 3)
    turns = CompactionTurns()
    _slice(turns, RUN)
    for _ in range(others):
        _slice(turns, uuid4())
    clock.now += LOOK_SECONDS
    _slice(turns, RUN)
    assert len(clock.begun) == begun


def test_the_end_of_a_run_compacts_after_another_compaction(
    site: Site, store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(upkeep, "send", lambda name, *_, **__: sent.append(name))
    monkeypatch.setattr(process, "resources", lambda: site.resources)
    monkeypatch.setattr(compaction, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(store, "_thresholds", replace(Thresholds(), rows=1))
    site.finish_all()
    with try_exclusive(site.resources.settings.session_url, f"compaction of {site.index.id}"):
        assert upkeep._optimize(site.index.id) == {"left": "to another process"}
    assert sent == ["foldex.optimize"]
    assert _unindexed(site) == FILES
    upkeep._optimize(site.index.id)
    assert sent == ["foldex.optimize"]
    assert _unindexed(site) == 0
