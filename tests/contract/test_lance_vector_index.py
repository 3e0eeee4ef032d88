"""Large LanceDB tables have an approximate index on vectors, and indexes on what filters compare.

No row is missed, and filters find what a comparison of all rows finds.
"""

from __future__ import annotations

import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import lance
import numpy as np
import pytest

from schemas.errors import StoreUnavailable
from tests.contract.stores import ALWAYS, near
from worker.vectors import Condition, Leg, Patch, Value, Vector, VectorRow
from worker.vectors.lance import vector_index
from worker.vectors.lance.indexes import FILTERED
from worker.vectors.lance.store import LanceStore
from worker.vectors.lance.vector_index import GROWTH, NAME, is_due

SPACE, DIMENSIONS, ROWS, PER_PARTITION = "space", 20, 2_000, 50


def _vectors(rows: int) -> Vector:
    rng = np.random.default_rng(20261124)
    centers = rng.standard_normal((40, DIMENSIONS))
    return (centers[np.arange(rows) % 40] + 0.3 * rng.standard_normal((rows, DIMENSIONS))).astype(np.float32)


VECTORS = _vectors(GROWTH * ROWS + GROWTH * PER_PARTITION)


def _row(number: int) -> VectorRow:
    return VectorRow(
        UUID(int=number),
        VECTORS[number],
        {"file_name": f"{number}.md", "file_id_path": str(number), "level": number % 1000},
    )


def _store(place: Path, min_rows: int = ROWS) -> LanceStore:
    return LanceStore(place, has_keywords=False, thresholds=replace(ALWAYS, large_rows=min_rows))


def _dataset(place: Path) -> lance.LanceDataset:
    return lance.dataset(place / f"{SPACE}.lance")


def _names(place: Path) -> set[str]:
    return {index.name for index in _dataset(place).describe_indices()}


def _exact(vector: Vector, numbers: list[int], limit: int) -> list[int]:
    chosen = VECTORS[numbers]
    similarity = chosen @ vector / np.linalg.norm(chosen, axis=1)
    return [numbers[place] for place in np.argsort(-similarity)[:limit]]


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LanceStore:
    monkeypatch.setattr(vector_index, "PARTITION_ROWS", PER_PARTITION)
    store = _store(tmp_path)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(ROWS - 1)])
    store.optimize(SPACE)
    assert NAME not in _names(tmp_path)
    store.write(SPACE, DIMENSIONS, [_row(ROWS - 1)])
    store.optimize(SPACE)
    assert NAME in _names(tmp_path)
    return store


def test_the_nearest_are_found_as_without_an_index(indexed: LanceStore) -> None:
    everything = list(range(ROWS))
    found = expected = 0
    for number in range(0, ROWS, 40):
        exact = set(_exact(VECTORS[number], everything, 10))
        (ranking,) = LanceStore(indexed._directory, has_keywords=False).search(SPACE, [Leg(10, vector=VECTORS[number])])
        found += len(exact & {UUID(row.id).int for row in ranking})
        expected += len(exact)
    assert found >= 0.95 * expected


def test_rows_that_are_not_indexed_are_found_and_join_the_index(indexed: LanceStore, tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(SPACE, DIMENSIONS, [_row(ROWS)], deletes=[UUID(int=3)])
    for _ in range(2):
        assert near(_store(tmp_path), SPACE, VECTORS[ROWS], limit=1) == [ROWS]
        assert 3 not in near(_store(tmp_path), SPACE, VECTORS[3])
        store.optimize(SPACE)
    (index,) = [index for index in _dataset(tmp_path).describe_indices() if index.name == NAME]
    covered = {fragment for segment in index.segments for fragment in segment.fragment_ids}
    assert covered == {fragment.fragment_id for fragment in _dataset(tmp_path).get_fragments()}


@pytest.mark.parametrize("narrow", [-1, vector_index.NARROW_NUMBERS])
def test_a_filter_finds_what_is_far_away(indexed: LanceStore, monkeypatch: pytest.MonkeyPatch, narrow: int) -> None:
    monkeypatch.setattr(vector_index, "PROBES", 1)
    monkeypatch.setattr(vector_index, "NARROW_NUMBERS", narrow)
    not_indexed = ROWS + 7
    indexed.write(SPACE, DIMENSIONS, [_row(not_indexed)])
    for width in (1, 30, 500):
        levels = [7, *random.Random(width).sample(range(100, 1000), width - 1)]
        kept = [number for number in [*range(ROWS), not_indexed] if number % 1000 in levels]
        for query in range(0, ROWS, 200):
            found = near(indexed, SPACE, VECTORS[query], Condition("level", "in", levels))
            assert found == _exact(VECTORS[query], kept, 10)


@pytest.mark.parametrize(
    ("rows", "stretches", "uses_index"),
    [(80, 40, False), (81, 40, True), (80, 41, True), (0, 0, False)],
    ids=["few", "many rows", "many stretches", "none"],
)
def test_few_rows_that_pass_are_compared_without_the_index(
    indexed: LanceStore, monkeypatch: pytest.MonkeyPatch, rows: int, stretches: int, uses_index: bool
) -> None:
    monkeypatch.setattr(vector_index, "NARROW_NUMBERS", 80 * DIMENSIONS)
    monkeypatch.setattr(vector_index, "NARROW_STRETCHES", 40)
    searched: list[bool] = []
    approximate = vector_index.approximate

    def spy(query: object, *, filtered: bool) -> object:
        searched.append(filtered)
        return approximate(query, filtered=filtered)

    monkeypatch.setattr(vector_index, "approximate", spy)
    # one row of each stretch, and all others after the last one
    kept = [100 + 2 * at for at in range(stretches)]
    kept += range(kept[-1] + 1, kept[-1] + 1 + rows - stretches) if kept else []
    found = near(indexed, SPACE, VECTORS[5], Condition("file_name", "in", ["none", *(f"{at}.md" for at in kept)]))
    assert found == _exact(VECTORS[5], kept, 10)
    assert searched == [True] * uses_index


def test_the_index_is_trained_anew_once_the_table_is_several_times_as_large(
    indexed: LanceStore, tmp_path: Path
) -> None:
    due = GROWTH * (ROWS + PER_PARTITION)
    indexed.write(SPACE, DIMENSIONS, [_row(number) for number in range(ROWS, due - 1)])
    assert not is_due(_dataset(tmp_path), ROWS)
    indexed.write(SPACE, DIMENSIONS, [_row(due - 1)])
    assert is_due(_dataset(tmp_path), ROWS)
    indexed.optimize(SPACE)
    assert not is_due(_dataset(tmp_path), ROWS)
    assert len(indexed.ids(SPACE, None, due + 1)) == due


@pytest.mark.parametrize(("with_vector", "is_trained"), [(ROWS - 1, False), (ROWS, True)])
def test_an_index_is_not_trained_on_rows_that_wait_for_their_vectors(
    tmp_path: Path, with_vector: int, is_trained: bool
) -> None:
    store = _store(tmp_path)
    waiting = [replace(_row(number), vector=None) for number in range(2 * ROWS)]
    store.write(SPACE, DIMENSIONS, waiting)
    store.optimize(SPACE)
    assert NAME not in _names(tmp_path)
    store.write(SPACE, DIMENSIONS, [replace(_row(number), generation=1) for number in range(with_vector)])
    store.optimize(SPACE)
    assert (NAME in _names(tmp_path)) is is_trained


def test_columns_of_filters_have_an_index_in_large_tables_only(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(ROWS - 1)])
    store.optimize(SPACE)
    assert not set(FILTERED) & _indexed(tmp_path)
    store.write(SPACE, DIMENSIONS, [_row(ROWS - 1)])
    store.optimize(SPACE)
    assert set(FILTERED) <= _indexed(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_filters_find_the_same_with_indexes_and_without(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    stores = [_store(tmp_path / "indexed", min_rows=40), _store(tmp_path / "plain", min_rows=10**6)]
    present: set[int] = set()

    def values(number: int) -> dict[str, Value]:
        path = "/".join(rng.choice(["a", "b", "a b", "a0", "ü"]) for _ in range(rng.randint(1, 3)))
        symbol = rng.choice(["f", "A.f", None])
        return {"file_node_id": str(UUID(int=number % 7)), "file_id_path": path, "symbol": symbol}

    for _ in range(12):
        new = [VectorRow(UUID(int=n), VECTORS[n], values(n)) for n in rng.sample(range(200), rng.randint(0, 30))]
        present |= {row.id.int for row in new}
        patches = [Patch(UUID(int=n), values(n)) for n in rng.sample(sorted(present), len(present) // 10)]
        gone = {n for n in present if rng.random() < 0.05} - {p.id.int for p in patches} - {row.id.int for row in new}
        present -= gone
        for store in stores:
            store.write(SPACE, DIMENSIONS, new)
            store.write(SPACE, DIMENSIONS, (), patches)
            store.write(SPACE, DIMENSIONS, deletes=[UUID(int=n) for n in gone])
        if rng.random() < 0.5:
            for store in stores:
                store.optimize(SPACE)
        for condition in (
            Condition("file_id_path", "prefix", [rng.choice(["a", "a/b", "ü", "a b"])]),
            Condition("file_node_id", "in", [str(UUID(int=rng.randrange(7))), str(UUID(int=rng.randrange(7)))]),
            Condition("symbol", "in", [rng.choice(["f", "A.f"])]),
        ):
            leg = Leg(300, vector=VECTORS[rng.randrange(200)], conditions=[condition])
            with_index, without = [{row.id for row in store.search(SPACE, [leg])[0]} for store in stores]
            assert with_index == without
    if len(present) >= 40:
        for store in stores:
            store.optimize(SPACE)
        assert set(FILTERED) <= _indexed(tmp_path / "indexed")
    assert not set(FILTERED) & _indexed(tmp_path / "plain")


def test_two_processes_that_build_at_once_leave_one_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "PARTITION_ROWS", PER_PARTITION)
    _store(tmp_path).write(SPACE, DIMENSIONS, [_row(number) for number in range(ROWS)])
    both = threading.Barrier(2)

    def build() -> None:
        store = _store(tmp_path)
        both.wait(60)
        store.optimize(SPACE)

    with ThreadPoolExecutor(2) as pool:
        for running in [pool.submit(build) for _ in range(2)]:
            running.result()
    assert {NAME, *(f"{name}_idx" for name in FILTERED)} <= _names(tmp_path)
    assert len([index for index in _dataset(tmp_path).describe_indices() if index.name == NAME]) == 1
    assert _store(tmp_path).ids(SPACE, None, ROWS + 1) == [UUID(int=number) for number in range(ROWS)]
    assert near(_store(tmp_path), SPACE, VECTORS[5], limit=1) == [5]


def test_a_lost_index_of_a_filter_is_built_again(indexed: LanceStore, tmp_path: Path) -> None:
    (lost,) = [index for index in _dataset(tmp_path).describe_indices() if index.name == "file_id_path_idx"]
    for segment in lost.segments:
        shutil.rmtree(tmp_path / f"{SPACE}.lance" / "_indices" / segment.uuid)
    wanted = Condition("file_id_path", "prefix", ["7"])
    with pytest.raises(StoreUnavailable, match="try again"):
        near(_store(tmp_path), SPACE, VECTORS[0], wanted)
    assert near(_store(tmp_path), SPACE, VECTORS[0], wanted) == [7]


def _indexed(place: Path) -> set[str]:
    return {name.removesuffix("_idx") for name in _names(place)}
