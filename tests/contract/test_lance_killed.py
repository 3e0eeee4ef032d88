"""Kills a process during a LanceDB commit: no rows are lost or duplicated, and no files are left behind."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

import lance
import pytest

from tests.contract.stores import ALWAYS, D, about, axis, near, row
from worker.vectors import Condition, Patch
from worker.vectors.lance import vector_index
from worker.vectors.lance.cleaning import COARSE_S
from worker.vectors.lance.compaction import Thresholds
from worker.vectors.lance.store import LanceStore

SPACE = "space"
#: Rows of a write. Each write replaces half of the rows of the previous one.
STEP = 10


#: Also indexes vectors and the columns of filters, as in a large table.
LARGE = replace(ALWAYS, large_rows=2 * STEP)


def _store(place: Path, thresholds: Thresholds = ALWAYS) -> LanceStore:
    return LanceStore(place, has_keywords=True, thresholds=thresholds)


def _write(store: LanceStore, turn: int) -> None:
    """Make three commits: upserts, patches and deletes."""
    numbers = range(turn * STEP, (turn + 1) * STEP)
    upserts = [row(number, axis(number % D), f"common word{number}") for number in numbers]
    last = range((turn - 1) * STEP, turn * STEP) if turn else range(0)
    patches = [Patch(UUID(int=number), {"symbol": f"seen{turn}"}) for number in last if number % 2]
    store.write(SPACE, D, upserts, patches, [UUID(int=number) for number in last if number % 2 == 0])


def _expected(turn: int) -> list[int]:
    return [number for number in range((turn + 1) * STEP) if number % 2 or number >= turn * STEP]


def _work(place: Path, thresholds: Thresholds, first: int, said: Connection) -> None:
    store = _store(place, thresholds)
    store.ids(SPACE, None, 1)
    for turn in range(first, first + 1000):
        said.send(turn)
        _write(store, turn)
        store.optimize(SPACE, writing=bool(turn % 3))


def _killed_at(place: Path, thresholds: Thresholds, first: int, seconds: float) -> int:
    """Kill a process that writes and compacts. Returns the write that it was at."""
    # imports Lance once for all processes
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    heard, said = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(place, thresholds, first, said), daemon=True)
    process.start()
    assert heard.poll(60)
    time.sleep(seconds)
    process.kill()
    process.join()
    turn = first
    while heard.poll():
        turn = heard.recv()
    return turn


@pytest.mark.timeout(240)
@pytest.mark.parametrize("thresholds", [ALWAYS, LARGE], ids=["small", "large"])
def test_a_process_killed_amid_writes_and_compactions_leaves_a_whole_table(
    tmp_path: Path, thresholds: Thresholds
) -> None:
    store, rng, turn = _store(tmp_path, thresholds), random.Random(20261123), 0
    _write(store, turn)
    for _ in range(6):
        turn = _killed_at(tmp_path, thresholds, turn + 1, rng.uniform(0, 0.6))
        # earlier writes are complete, without duplicates
        kept = [UUID(int=number) for number in _expected(turn - 1) if number % 2]
        found = store.ids(SPACE, None, 10_000)
        assert len(set(found)) == len(found)
        assert set(kept) <= set(found)
        # the caller repeats unconfirmed writes
        _write(store, turn)
        expected = _expected(turn)
        assert store.ids(SPACE, None, 10_000) == [UUID(int=number) for number in expected]
        assert sorted(about(store, SPACE, "common", limit=10_000)) == expected
        assert sorted(near(store, SPACE, axis(0), limit=10_000)) == expected
        seen = Condition("symbol", "in", [f"seen{turn}"])
        assert sorted(near(store, SPACE, axis(0), seen, limit=10_000)) == [
            n for n in expected if n % 2 and n >= (turn - 1) * STEP and n < turn * STEP
        ]
        time.sleep(2 * COARSE_S)
        store.optimize(SPACE)
        _prove_clean(tmp_path)
        assert sorted(about(store, SPACE, "common", limit=10_000)) == expected
    names = {index.name for index in lance.dataset(tmp_path / f"{SPACE}.lance").describe_indices()}
    assert (vector_index.NAME in names) == (thresholds is LARGE)


@pytest.mark.parametrize("name", ["data/.tmpKilled", "_versions/.tmpKilled", "_versions/7.manifest#1"])
def test_what_a_killed_process_had_not_renamed_yet_goes(tmp_path: Path, name: str) -> None:
    store = _store(tmp_path)
    _write(store, 0)
    left = tmp_path / f"{SPACE}.lance" / name
    left.write_bytes(b"half a file")
    time.sleep(2 * COARSE_S)
    _write(store, 1)
    store.optimize(SPACE)
    _prove_clean(tmp_path)
    assert not left.exists()
    assert store.ids(SPACE, None, 10_000) == [UUID(int=number) for number in _expected(1)]


def _prove_clean(place: Path) -> None:
    """Only the newest version of each file that a commit writes remains."""
    table_place = place / f"{SPACE}.lance"
    dataset = lance.dataset(table_place)
    fragments = len(dataset.get_fragments())
    segments = {segment.uuid for index in dataset.describe_indices() for segment in index.segments}
    names = sorted(str(path.relative_to(table_place)) for path in table_place.rglob("*") if path.is_file())
    assert len([name for name in names if name.startswith("data/")]) == fragments, names
    assert {name.split("/")[1] for name in names if name.startswith("_indices/")} == segments, names
    # the newest manifest, and a file that names it
    assert len([name for name in names if name.startswith("_versions/")]) <= 2, names
    # how many files make a segment depends on how many writes it holds
    rest = [name for name in names if not name.startswith(("data/", "_indices/", "_versions/"))]
    assert len(rest) <= fragments + 2, names
