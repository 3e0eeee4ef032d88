"""LanceDB's disk usage and open files: an edit costs what it changed, and old versions do not stay long."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import lance
import pytest

from tests.contract.stores import ALWAYS, D, about, axis, near, row
from worker.vectors import Leg, Patch, VectorRow
from worker.vectors.lance import cleaning
from worker.vectors.lance import store as lance_store
from worker.vectors.lance.cleaning import COARSE_S, committing, has_versions_to_delete
from worker.vectors.lance.compaction import Thresholds, is_due, number_left, number_to_merge
from worker.vectors.lance.crashes import PREFIX
from worker.vectors.lance.open_tables import GONE_SEGMENTS, OPEN_TABLES
from worker.vectors.lance.store import LanceStore

SPACE = "space"
ROWS = 600
#: Higher than any test reaches.
NEVER = 1_000_000
NOTHING = Thresholds(fragments=NEVER, rows=NEVER, min_deleted=NEVER, versions=NEVER)


def _text(number: int) -> str:
    return " ".join(f"w{number * 31 % 997 + step}" for step in range(100))


def _row(number: int) -> VectorRow:
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


def _due(place: Path, thresholds: Thresholds) -> bool:
    return is_due(lance.dataset(place / f"{SPACE}.lance"), thresholds)


def _fragments(place: Path) -> list[int]:
    """Rows of each fragment, also deleted ones."""
    return [fragment.physical_rows for fragment in lance.dataset(place / f"{SPACE}.lance").get_fragments()]


def _segments(place: Path) -> list[int]:
    """Number of segments of each index."""
    return [len(index.segments) for index in lance.dataset(place / f"{SPACE}.lance").describe_indices()]


def _unindexed(place: Path) -> int:
    """Rows that some index does not cover."""
    dataset = lance.dataset(place / f"{SPACE}.lance")
    names = [index.name for index in dataset.describe_indices()]
    return max(int(dataset.stats.index_stats(name)["num_unindexed_rows"]) for name in names)


def _versions(place: Path) -> int:
    return len(list((place / f"{SPACE}.lance" / "_versions").glob("*.manifest")))


def test_an_edit_writes_what_it_changed_whatever_the_table_holds(tmp_path: Path) -> None:
    store = _filled(tmp_path, 3_000)
    table = sum(_sizes(tmp_path).values())
    edits, written = 40, 0
    for number in range(edits):
        before = _sizes(tmp_path)
        store.write(SPACE, D, [_row(3_000 + number)], deletes=[UUID(int=number)])
        store.optimize(SPACE)
        now = _sizes(tmp_path)
        written += sum(size for path, size in now.items() if path not in before)
        assert sum(now.values()) < 2 * table
    # with a copy of the table for each 25 edits it would be twice as much
    assert written < 25_000 * edits
    assert table > 750_000
    assert _fragments(tmp_path)[0] == 3_000
    assert len(_fragments(tmp_path)) < 2 * Thresholds().fragments
    assert max(_segments(tmp_path)) <= 4
    assert store.ids(SPACE, None, 9_999) == [UUID(int=number) for number in range(edits, 3_000 + edits)]


def test_a_table_is_due_from_so_many_new_fragments_on(tmp_path: Path) -> None:
    store = _filled(tmp_path, 50)
    limit = replace(NOTHING, fragments=3)
    for number in range(3):
        assert not _due(tmp_path, limit)
        store.write(SPACE, D, [_row(100 + number)])
    assert _due(tmp_path, limit)
    assert not _due(tmp_path, NOTHING)


def test_a_table_is_due_from_so_many_new_rows_on(tmp_path: Path) -> None:
    store = _filled(tmp_path, 60)
    limit = replace(NOTHING, rows=6)
    store.write(SPACE, D, [_row(100 + number) for number in range(5)])
    assert not _due(tmp_path, limit)
    store.write(SPACE, D, [_row(200)])
    assert _due(tmp_path, limit)


@pytest.mark.parametrize(("least", "share"), [(12, 1000), (1, 5)], ids=["at least", "share"])
def test_a_table_is_due_from_so_many_deleted_rows_on(tmp_path: Path, least: int, share: int) -> None:
    store = _filled(tmp_path, 60)
    limit = replace(NOTHING, min_deleted=least, deleted_share=share)
    store.write(SPACE, D, deletes=[UUID(int=number) for number in range(11)])
    assert not _due(tmp_path, limit)
    store.write(SPACE, D, deletes=[UUID(int=11)])
    assert _due(tmp_path, limit)
    LanceStore(tmp_path, has_keywords=True, thresholds=limit).optimize(SPACE)
    # the rows are gone, so it does not stay due forever
    assert not _due(tmp_path, limit)
    assert _fragments(tmp_path) == [48]


def test_what_is_merged_has_at_most_so_many_times_the_rows_of_all_newer_ones() -> None:
    assert number_to_merge([100, 20], 10, 2) == 1
    assert number_to_merge([61, 20], 10, 2) == 1
    assert number_to_merge([60, 20], 10, 2) == 2
    assert number_to_merge([60, 21], 10, 2) == 0
    assert number_to_merge([], 10, 2) == 0
    assert number_to_merge([0], 1, 2) == 1


def test_rows_are_merged_again_once_as_many_newer_ones_follow(tmp_path: Path) -> None:
    store = _filled(tmp_path, 50)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    shapes = []
    for number, rows in enumerate((10, 4, 3, 8, 1)):
        store.write(SPACE, D, [_row(100 * number + row_) for row_ in range(100, 100 + rows)])
        compacting.optimize(SPACE)
        shapes.append((_fragments(tmp_path), set(_segments(tmp_path))))
    # 4 rows leave 10 alone, and 3 more take 4 and then 10; 8 leave 17 alone
    assert shapes == [([50, 10], {2}), ([50, 10, 4], {3}), ([50, 17], {2}), ([50, 17, 8], {3}), ([50, 17, 8, 1], {4})]
    store.write(SPACE, D, [_row(number) for number in range(900, 904)])
    compacting.optimize(SPACE)
    # 4 rows take 1, then 8, 17, and at last 50
    assert (_fragments(tmp_path), set(_segments(tmp_path))) == ([80], {1})


def test_a_full_fragment_is_left_alone(tmp_path: Path) -> None:
    store = _filled(tmp_path, 10)
    for full, start, expected in ((10, 200, [10, 9]), (9, 300, [10, 9, 9]), (10, 400, [10, 27])):
        store.write(SPACE, D, [_row(start + number) for number in range(9)])
        LanceStore(tmp_path, has_keywords=True, thresholds=replace(ALWAYS, full_rows=full)).optimize(SPACE)
        assert _fragments(tmp_path) == expected


def test_a_fragment_is_written_anew_without_its_many_deleted_rows(tmp_path: Path) -> None:
    made = _filled(tmp_path)
    made.write(SPACE, D, [_row(ROWS + number) for number in range(10)])
    LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS).optimize(SPACE)
    gone = ROWS // 2
    made.write(SPACE, D, deletes=[UUID(int=number) for number in range(gone)])
    assert _fragments(tmp_path) == [ROWS, 10]
    made.optimize(SPACE)
    assert sorted(_fragments(tmp_path)) == [10, ROWS - gone]


def test_a_run_that_writes_indexes_its_rows_from_so_many_on_and_merges_nothing(tmp_path: Path) -> None:
    store = _filled(tmp_path, 8)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=replace(Thresholds(), rows_while_writing=6))
    for turn in range(1, 4):
        store.write(SPACE, D, [_row(10 * turn + number) for number in range(5)])
        compacting.optimize(SPACE, writing=True)
        assert _unindexed(tmp_path) == 5
        store.write(SPACE, D, [_row(10 * turn + 5)])
        compacting.optimize(SPACE, writing=True)
        assert _unindexed(tmp_path) == 0
        assert (_fragments(tmp_path), set(_segments(tmp_path))) == ([8, *[6] * turn], {1 + turn})
        assert _versions(tmp_path) <= 2
    assert len(store.ids(SPACE, None, 99)) == 26


@pytest.mark.parametrize("large_rows", [NEVER, 8], ids=["small", "large"])
def test_what_a_run_left_side_by_side_is_merged_after_it(tmp_path: Path, large_rows: int) -> None:
    store = _filled(tmp_path, 8)
    limits = Thresholds(rows_while_writing=0, large_rows=large_rows)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=limits)
    compacting.optimize(SPACE)
    for turn, segments in ((1, 2), (2, 3), (3, 1)):
        store.write(SPACE, D, [_row(10 * turn + number) for number in range(6)])
        compacting.optimize(SPACE, writing=True)
        # nothing is new
        compacting.optimize(SPACE)
        assert set(_segments(tmp_path)) == {segments}
    assert not _due(tmp_path, limits)
    assert len(_segments(tmp_path)) == (3 if large_rows == NEVER else 7)
    assert sorted(about(store, SPACE, " ".join(_text(number) for number in range(3)), limit=99)) != []


def test_segments_of_a_run_are_found_whatever_followed_them() -> None:
    limits = Thresholds(ratio=2, left=4)
    assert number_left([16, 16, 16, 16], limits) == 4
    assert number_left([16, 16, 16], limits) == 0
    assert number_left([16, 16, 16, 16, 1], limits) == 5
    assert number_left([1000, 16, 16, 16, 16], limits) == 4
    # each is larger than twice all newer ones
    assert number_left([81, 27, 9, 3, 1], limits) == 0
    assert number_left([], limits) == 0


def test_random_edits_answer_like_a_fresh_table(tmp_path: Path) -> None:
    rng = random.Random(20261123)
    store = LanceStore(tmp_path / "edited", has_keywords=True, thresholds=Thresholds(fragments=3, min_deleted=5))
    kept: dict[int, VectorRow] = {}
    for turn in range(40):
        gone = rng.sample(sorted(kept), min(len(kept), rng.choice([0, 1, 4])))
        numbers = set(rng.sample(range(200), rng.choice([1, 3, 20]))) - set(gone)
        rows = {number: row(number, axis(number % D, rng.random()), _text(rng.randrange(40))) for number in numbers}
        store.write(SPACE, D, list(rows.values()), deletes=[UUID(int=number) for number in gone])
        kept = {number: each for number, each in (kept | rows).items() if number not in gone}
        store.optimize(SPACE)
        assert store.ids(SPACE, None, 999) == [UUID(int=number) for number in sorted(kept)]
        if turn % 8 == 7:
            fresh = LanceStore(tmp_path / f"fresh{turn}", has_keywords=True)
            fresh.write(SPACE, D, list(kept.values()))
            for number in range(4):
                assert near(store, SPACE, axis(number, 0.3)) == near(fresh, SPACE, axis(number, 0.3))
                words = _text(number * 7)
                found, expected = (sorted(about(each, SPACE, words, limit=999)) for each in (store, fresh))
                assert found == expected


def test_segments_score_like_one_index(tmp_path: Path) -> None:
    store = LanceStore(tmp_path / "many", has_keywords=True, thresholds=ALWAYS)
    for start, end in ((0, 100), (100, 130), (130, 138), (138, 140)):
        store.write(SPACE, D, [_row(number) for number in range(start, end)])
        store.optimize(SPACE)
    assert _segments(tmp_path / "many") == [4, 4, 4]
    fresh = LanceStore(tmp_path / "fresh", has_keywords=True)
    fresh.write(SPACE, D, [_row(number) for number in range(140)])
    for field in ("text", "code"):
        leg = Leg(50, keywords="w31 w50 w131 w700", field=field)
        assert store.search(SPACE, [leg]) == fresh.search(SPACE, [leg])


def test_old_versions_are_deleted_from_so_many_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MAX_WAIT_S", 0.1)
    store = _filled(tmp_path, 10)
    table = tmp_path / f"{SPACE}.lance"
    for number in range(3):
        store.write(SPACE, D, [_row(number)])
    old = sorted((table / "_versions").glob("*.manifest"))[-3:]
    # a running commit may need the young ones
    with committing(table):
        for path in old:
            assert not has_versions_to_delete(table, 3)
            os.utime(path, (1_600_000_000, 1_600_000_000))
        assert has_versions_to_delete(table, 3)


def test_young_versions_count_while_no_commit_runs(tmp_path: Path) -> None:
    store = _filled(tmp_path, 10)
    for number in range(3):
        store.write(SPACE, D, [_row(number)])
    versions = _versions(tmp_path)
    assert has_versions_to_delete(tmp_path / f"{SPACE}.lance", versions)
    assert not has_versions_to_delete(tmp_path / f"{SPACE}.lance", versions + 1)


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


def test_files_of_a_commit_that_begins_amid_the_cleaning_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _filled(tmp_path, 10)
    table = tmp_path / f"{SPACE}.lance"
    made = [table / name for name in ("data/new.lance", "data/.tmpNew", "_versions/7.manifest#1")]
    find = cleaning._moment_without_commit

    def find_and_begin(path: Path) -> float | None:
        moment = find(path)
        for file in made:
            file.write_bytes(b"being written")
        return moment

    monkeypatch.setattr(cleaning, "_moment_without_commit", find_and_begin)
    cleaning.clean(lance.dataset(table), table)
    assert all(file.exists() for file in made)


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
    for number in range(2 * GONE_SEGMENTS):
        made.write(SPACE, D, [_row(100 + number)])
        compacting.optimize(SPACE)
        asked(SPACE)
    # each deleted directory of an index may have as many open files as a table
    assert _open_files(tmp_path) <= one * (1 + GONE_SEGMENTS)
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
            name = str(item.readlink())
            # each store notes its calls in a file of its own
            opened += str(place) in name and PREFIX not in name
    return opened


def test_each_commit_of_a_write_keeps_cleaners_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    store.write("a", D, [row(1, axis(0)), row(2, axis(1))])
    moments, commit = [], lance_store._commit

    def looked_at(action: Callable[[], object]) -> object:
        moments.append(cleaning._moment_without_commit(tmp_path / "a.lance"))
        return commit(action)

    monkeypatch.setattr(cleaning, "MAX_WAIT_S", 0)
    monkeypatch.setattr(lance_store, "_commit", looked_at)
    store.write("a", D, [row(3, axis(2))], [Patch(UUID(int=1), {"level": 1})], [UUID(int=2)])
    store.optimize("a")
    # the last one cleans
    *writing, cleaning_up = moments
    assert len(writing) >= 5
    assert set(writing) == {None}
    assert cleaning_up is not None
