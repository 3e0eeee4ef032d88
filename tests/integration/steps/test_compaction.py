"""What a run writes is indexed while it goes on, by one process at a time, and that never stops the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

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


@pytest.fixture
def store(site: Site, monkeypatch: pytest.MonkeyPatch) -> LanceStore:
    """The store of a site, where a run indexes every two chunks."""
    opened = site.resources.store("lancedb", "store")
    assert isinstance(opened, DirectoryStore)
    made = opened.store
    assert isinstance(made, LanceStore)
    monkeypatch.setattr(made, "_thresholds", replace(Thresholds(), rows_while_writing=2))
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
    monkeypatch.setattr(compaction, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(compaction, "REST", 0)
    seen = [_unindexed(site) for _ in CompactionTurns().compacting(site.resources, site.index, _batches(site))]
    # each is seen before the look that follows it
    assert seen == [1, 2, 1, 2]
    assert _unindexed(site) == 0
    assert site.refresh()
    site.prove()


def test_a_run_goes_on_beside_another_compaction(site: Site, store: LanceStore) -> None:
    with try_exclusive(site.resources.settings.session_url, f"compaction of {site.index.id}"):
        assert len(list(CompactionTurns().compacting(site.resources, site.index, _batches(site)))) == FILES
    assert _unindexed(site) == FILES
    assert site.refresh()


def test_a_run_goes_on_if_it_cannot_be_compacted(
    site: Site, store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("LanceDB failed.")

    monkeypatch.setattr(store, "optimize", fail)
    assert len(list(CompactionTurns().compacting(site.resources, site.index, _batches(site)))) == FILES
    assert site.refresh()


@pytest.mark.parametrize(("took", "rest"), [(1.0, LOOK_SECONDS), (LOOK_SECONDS, REST * LOOK_SECONDS)])
def test_a_process_compacts_a_tenth_of_its_time_at_most(
    monkeypatch: pytest.MonkeyPatch, took: float, rest: float
) -> None:
    now, begun = 1000.0, list[float]()

    def compact(*_: Any, writing: bool) -> None:
        nonlocal now
        assert writing
        begun.append(now)
        now += took

    monkeypatch.setattr(compaction, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(compaction, "compact", compact)
    nothing: Any = None
    batches = CompactionTurns().compacting(nothing, nothing, range(3))
    next(batches)
    next(batches)
    assert begun == [1000.0]
    now += rest - 0.01
    next(batches)
    assert len(begun) == 1
    now += 0.01
    list(batches)
    assert len(begun) == 2


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
