"""LanceDB's disk usage and open files: a table is compacted when due, and old versions do not stay long."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from tests.contract.stores import ALWAYS, D, about, axis, near, row
from worker.vectors import Row
from worker.vectors.lance import compaction
from worker.vectors.lance.compaction import COARSE_S, Thresholds, committing, is_due
from worker.vectors.lance.open_tables import OPEN_TABLES
from worker.vectors.lance.store import LanceStore

SPACE = "space"
ROWS = 600
#: Higher than any test reaches.
NEVER = 1_000_000
NOTHING = Thresholds(NEVER, NEVER, 1, NEVER, 1, NEVER, 1, NEVER)


def _text(number: int) -> str:
    return " ".join(f"w{number * 31 % 997 + step}" for step in range(100))


def _row(number: int) -> Row:
    return row(number, axis(number % D), _text(number))


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    return LanceStore(tmp_path, has_keywords=True)


def _filled(place: Path, rows: int = ROWS) -> LanceStore:
    made = LanceStore(place, has_keywords=True, thresholds=ALWAYS)
    made.write(SPACE, D, [_row(number) for number in range(rows)])
    for _ in range(2):
        time.sleep(2 * COARSE_S)
        made.optimize(SPACE)
    return LanceStore(place, has_keywords=True)


def _sizes(place: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in place.rglob("*") if path.is_file()}


def _due(store: LanceStore, place: Path, thresholds: Thresholds) -> bool:
    with store._table(SPACE) as table:
        return is_due(table, place / f"{SPACE}.lance", thresholds)


def _fragments(store: LanceStore) -> int:
    with store._table(SPACE) as table:
        return int(table.stats()["fragment_stats"]["num_fragments"])


def _versions(place: Path) -> int:
    return len(list((place / f"{SPACE}.lance" / "_versions").glob("*.manifest")))


def test_an_edit_writes_little_and_the_disk_holds_little_more_than_the_table(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    seen = _sizes(tmp_path)
    table, written = sum(seen.values()), 0
    edits = 60
    for number in range(edits):
        store.write(SPACE, D, [_row(ROWS + number)], deletes=[UUID(int=number)])
        store.optimize(SPACE)
        now = _sizes(tmp_path)
        written += sum(size for path, size in now.items() if path not in seen)
        seen = now
        assert sum(now.values()) < 3 * table
    # two compactions, each at most two copies of the table
    assert written < 5 * table
    assert _fragments(store) < Thresholds().min_fragments
    assert store.ids(SPACE, None, 2 * ROWS) == [UUID(int=number) for number in range(edits, ROWS + edits)]


def test_a_table_is_due_from_so_many_fragments_on(tmp_path: Path) -> None:
    store = _filled(tmp_path, 50)
    limit = Thresholds(4, 4, 1, NEVER, 1, NEVER, 1, NEVER)
    for number in range(3):
        assert not _due(store, tmp_path, limit)
        store.write(SPACE, D, [_row(100 + number)])
    assert _fragments(store) == 4
    assert _due(store, tmp_path, limit)
    assert not _due(store, tmp_path, NOTHING)


def test_larger_tables_wait_for_more_fragments() -> None:
    thresholds = Thresholds(min_fragments=24, max_fragments=64, rows_per_fragment=200)
    rows = (0, 4_999, 5_000, 12_799, 12_800, 1_000_000)
    assert [thresholds.fragments(number) for number in rows] == [24, 24, 25, 63, 64, 64]


@pytest.mark.parametrize(("least", "share"), [(6, 1000), (1, 10)], ids=["at least", "share"])
def test_a_table_is_due_from_so_many_rows_on_that_are_not_indexed(tmp_path: Path, least: int, share: int) -> None:
    store = _filled(tmp_path, 60)
    limit = Thresholds(NEVER, NEVER, 1, least, share, NEVER, 1, NEVER)
    store.write(SPACE, D, [_row(100 + number) for number in range(5)])
    assert not _due(store, tmp_path, limit)
    store.write(SPACE, D, [_row(200)])
    assert _due(store, tmp_path, limit)


@pytest.mark.parametrize(("least", "share"), [(12, 1000), (1, 5)], ids=["at least", "share"])
def test_a_table_is_due_from_so_many_deleted_rows_on(tmp_path: Path, least: int, share: int) -> None:
    store = _filled(tmp_path, 60)
    limit = Thresholds(NEVER, NEVER, 1, NEVER, 1, least, share, NEVER)
    store.write(SPACE, D, deletes=[UUID(int=number) for number in range(11)])
    assert not _due(store, tmp_path, limit)
    store.write(SPACE, D, deletes=[UUID(int=11)])
    assert _due(store, tmp_path, limit)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=limit)
    compacting.optimize(SPACE)
    # the rows are gone, so it does not stay due forever
    assert not _due(store, tmp_path, limit)


def test_a_table_is_due_from_so_many_old_versions_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MAX_WAIT_S", 0.1)
    store = _filled(tmp_path, 10)
    for number in range(3):
        store.write(SPACE, D, [_row(number)])
    old = sorted((tmp_path / f"{SPACE}.lance" / "_versions").glob("*.manifest"))[-3:]
    limit = Thresholds(NEVER, NEVER, 1, NEVER, 1, NEVER, 1, versions=3)
    # a running commit may need the young ones
    with committing(tmp_path / f"{SPACE}.lance"):
        for path in old:
            assert not _due(store, tmp_path, limit)
            os.utime(path, (1_600_000_000, 1_600_000_000))
        assert _due(store, tmp_path, limit)


def test_young_versions_count_while_no_commit_runs(tmp_path: Path) -> None:
    store = _filled(tmp_path, 10)
    for number in range(3):
        store.write(SPACE, D, [_row(number)])
    versions = _versions(tmp_path)
    assert _due(store, tmp_path, Thresholds(NEVER, NEVER, 1, NEVER, 1, NEVER, 1, versions=versions))
    assert not _due(store, tmp_path, Thresholds(NEVER, NEVER, 1, NEVER, 1, NEVER, 1, versions=versions + 1))


def test_edits_of_the_same_few_rows_leave_few_versions(tmp_path: Path) -> None:
    store = _filled(tmp_path, 10)
    for number in range(2 * Thresholds().versions):
        store.write(SPACE, D, [_row(number % 3)])
        if number % 20 == 0:
            store.optimize(SPACE)
    assert _versions(tmp_path) < Thresholds().versions + 20


def test_old_versions_and_what_a_lost_commit_left_go_with_a_compaction(tmp_path: Path) -> None:
    store = _filled(tmp_path, 50)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    for number in range(5):
        store.write(SPACE, D, [_row(100 + number)])
    strays = _strays(tmp_path)
    time.sleep(2 * COARSE_S)
    with committing(tmp_path / f"{SPACE}.lance"):
        compacting.optimize(SPACE)
        # they may belong to that commit
        assert _versions(tmp_path) > 5
        assert all(path.exists() for path in strays)
    time.sleep(2 * COARSE_S)
    compacting.optimize(SPACE)
    assert _versions(tmp_path) == 1
    assert not any(path.exists() for path in strays)
    assert len(store.ids(SPACE, None, 100)) == 55
    assert about(store, SPACE, "w1") != []


def _strays(place: Path) -> list[Path]:
    table = place / f"{SPACE}.lance"
    made = [table / "data" / "a.lance", table / "_indices" / "b" / "c.lance", table / "_deletions" / "1-2-3.arrow"]
    for path in made:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left behind")
    return made


def test_readers_go_on_while_a_table_is_compacted(tmp_path: Path) -> None:
    store = _filled(tmp_path, 50)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    ended, errors, calls = threading.Event(), [], [0]

    def read() -> None:
        reader = LanceStore(tmp_path, has_keywords=True)
        while not ended.is_set():
            try:
                assert near(reader, SPACE, axis(1)) != []
                assert about(reader, SPACE, "w31") != []
                assert len(reader.ids(SPACE, None, 1000)) >= 50
                assert len(reader.vectors(SPACE, [UUID(int=1)])) == 1
            except Exception as error:  # noqa: BLE001 - reported by the main thread
                errors.append(error)
            calls[0] += 1

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(15):
        store.write(SPACE, D, [_row(100 + number)])
        compacting.optimize(SPACE)
    ended.set()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert calls[0] > 10


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: it lists a process's open files")
def test_files_of_indexes_made_anew_and_of_dropped_tables_are_closed(tmp_path: Path, store: LanceStore) -> None:
    made = _filled(tmp_path)
    shutil.copytree(tmp_path / f"{SPACE}.lance", other := tmp_path / "other")

    def asked(space: str) -> None:
        assert about(store, space, "w31") != []

    asked(SPACE)
    one = _open_files(tmp_path)
    assert 0 < one <= 4
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    for number in range(4):
        made.write(SPACE, D, [_row(100 + number)])
        compacting.optimize(SPACE)
        asked(SPACE)
    assert _open_files(tmp_path) <= one
    for number in range(OPEN_TABLES + 10):
        shutil.copytree(other, tmp_path / f"t{number}.lance")
        asked(f"t{number}")
    assert _open_files(tmp_path) <= OPEN_TABLES * one
    for number in range(OPEN_TABLES + 10):
        store.drop(f"t{number}")
    made.drop(SPACE)
    shutil.copytree(other, tmp_path / "last.lance")
    asked("last")
    assert _open_files(tmp_path) <= one


def _open_files(place: Path) -> int:
    opened = 0
    for item in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            opened += str(place) in str(item.readlink())
    return opened
