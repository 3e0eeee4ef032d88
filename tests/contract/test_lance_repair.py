"""Another process deletes files of a LanceDB table: the store keeps what it can, and does not get stuck."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import lancedb
import pyarrow as pa
import pytest

from schemas.errors import StoreUnavailable
from tests.contract.stores import ALWAYS, D, about, axis, near, row
from worker.vectors.lance import cleaning, indexes, repair
from worker.vectors.lance.cleaning import COARSE_S
from worker.vectors.lance.crashes import PREFIX
from worker.vectors.lance.repair import Condition, Repairs
from worker.vectors.lance.store import LanceStore, _dataset

SPACE = "space"


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    made = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    made.write(SPACE, D, [row(number, axis(number), "word") for number in range(1, 5)])
    made.optimize(SPACE)
    return made


def emptied(tmp_path: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(tmp_path / f"{SPACE}.lance" / name)


def test_what_dead_processes_left_of_a_drop_or_a_new_table_goes_with_the_next_drop(
    tmp_path: Path, store: LanceStore
) -> None:
    left, old, young = (tmp_path / name for name in (".dropped-0", ".new-0", ".new-1"))
    for path in (left, old, young):
        shutil.copytree(tmp_path / f"{SPACE}.lance", path / "other.lance")
    os.utime(old, (1_600_000_000, 1_600_000_000))
    store.drop("never-made")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(PREFIX)) == [
        ".new-1",
        f"{SPACE}.lance",
    ]
    assert len(store.ids(SPACE, None, 10)) == 4


@pytest.mark.parametrize("names", [["data"], ["_versions"], ["data", "_indices"]], ids=str)
def test_rows_that_are_gone_are_not_there_at_the_next_call(tmp_path: Path, store: LanceStore, names: list[str]) -> None:
    emptied(tmp_path, *names)
    with pytest.raises(StoreUnavailable, match="try again"):
        near(store, SPACE, axis(1))
    assert store.ids(SPACE, None, 10) == []
    store.write(SPACE, D, [row(9, axis(1), "word")])
    assert near(store, SPACE, axis(1)) == about(store, SPACE, "word") == [9]


class Overtaken:
    """Opens tables, of which the first ones lose their files to commits and cleanings between two of their steps."""

    def __init__(self, store: LanceStore, times: int) -> None:
        self._store, self._times = store, times

    def __call__(self, path: Path, version: int | None = None) -> Any:
        if self._times:
            self._times -= 1
            number = 100 + self._times
            self._store.write(SPACE, D, [row(number, axis(5), "word")], deletes=[UUID(int=number + 1)])
            raise RuntimeError("Not found: _versions/1.manifest")
        return _dataset(path, version)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_reader_that_is_overtaken_again_and_again_reads(
    tmp_path: Path, store: LanceStore, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    reader, overtaken = LanceStore(tmp_path, has_keywords=True), Overtaken(store, times)
    monkeypatch.setattr(reader, "_opener", lambda path: partial(overtaken, path))
    assert reader.ids(SPACE, None, 10) == [UUID(int=number) for number in (1, 2, 3, 4, 100)]


def test_a_reader_whose_files_a_compaction_deletes_opens_the_table_again(
    tmp_path: Path, store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = LanceStore(tmp_path, has_keywords=True)
    compacting = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    overtaken = [True, False, True, False]

    def opened(path: Path) -> Any:
        dataset = _dataset(path)
        if overtaken.pop(0):
            # so many that they are joined with the others
            store.write(SPACE, D, [row(number, axis(5), "word") for number in range(100, 104)])
            time.sleep(2 * COARSE_S)
            compacting.optimize(SPACE)
        return dataset

    monkeypatch.setattr(reader, "_opener", lambda path: partial(opened, path))
    assert reader.ids(SPACE, None, 10) == [UUID(int=number) for number in (1, 2, 3, 4, 100, 101, 102, 103)]
    assert len(reader.vectors(SPACE, [UUID(int=100)])) == 1
    assert overtaken == []


@pytest.mark.parametrize("times", [1, 5, repair.ATTEMPTS])
def test_a_table_that_others_write_is_not_set_aside(tmp_path: Path, store: LanceStore, times: int) -> None:
    overtaken, path = Overtaken(store, times), tmp_path / f"{SPACE}.lance"

    found = Repairs(tmp_path, overtaken, frozenset()).look(SPACE, path)
    assert found is (Condition.UNKNOWN if times == repair.ATTEMPTS else Condition.WHOLE)
    assert path.is_dir()


#: What makes a table one of before the first release.
OLD_COLUMNS: dict[str, Callable[[Any], object]] = {
    "no generation": lambda table: table.drop_columns(["generation"]),
    "stems of the store": lambda table: table.add_columns(pa.field("keywords", pa.string())),
    "no words": lambda table: table.drop_columns(["words"]),
}


@pytest.mark.parametrize("change", OLD_COLUMNS.values(), ids=OLD_COLUMNS)
@pytest.mark.parametrize("most_bytes", [0, None])
def test_a_table_of_before_the_first_release_is_set_aside(
    tmp_path: Path, store: LanceStore, change: Callable[[Any], object], most_bytes: int | None
) -> None:
    store.verify(SPACE, most_bytes)
    change(lancedb.connect(tmp_path).open_table(SPACE))
    store.verify(SPACE, most_bytes)
    assert store.ids(SPACE, None, 10) == []
    assert len(list(tmp_path.glob(".damaged-*"))) == 1
    store.write(SPACE, D, [row(9, axis(1), "word")])
    assert near(store, SPACE, axis(1)) == about(store, SPACE, "word") == [9]


def test_a_search_of_words_that_a_table_lacks_sets_it_aside(tmp_path: Path, store: LanceStore) -> None:
    lancedb.connect(tmp_path).open_table(SPACE).drop_columns(["words", "code"])
    with pytest.raises(StoreUnavailable, match="written again"):
        about(store, SPACE, "word")
    assert store.ids(SPACE, None, 10) == []


def test_a_table_without_words_is_whole_where_postgres_has_them(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=False)
    store.write(SPACE, D, [row(1, axis(1))])
    store.verify(SPACE, 0)
    assert near(store, SPACE, axis(1)) == [1]


def test_indexes_are_made_anew_and_no_row_is_lost(tmp_path: Path, store: LanceStore) -> None:
    emptied(tmp_path, "_indices")
    other = LanceStore(tmp_path, has_keywords=True)
    with pytest.raises(StoreUnavailable, match="try again"):
        about(other, SPACE, "word")
    assert about(other, SPACE, "word") == [1, 2, 3, 4]
    other.write(SPACE, D, [row(9, axis(1), "word")], deletes=[UUID(int=4)])
    assert other.ids(SPACE, None, 10) == [UUID(int=number) for number in (1, 2, 3, 9)]


def test_an_index_that_is_made_anew_keeps_cleaners_away(
    tmp_path: Path, store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments, create = [], indexes.create

    def looked_at(table: Any, column: str) -> None:
        moments.append(cleaning._moment_without_commit(tmp_path / f"{SPACE}.lance"))
        create(table, column)

    monkeypatch.setattr(cleaning, "MAX_WAIT_S", 0)
    monkeypatch.setattr(indexes, "create", looked_at)
    emptied(tmp_path, "_indices")
    with pytest.raises(StoreUnavailable, match="try again"):
        about(LanceStore(tmp_path, has_keywords=True), SPACE, "word")
    assert len(moments) >= 2
    assert set(moments) == {None}
