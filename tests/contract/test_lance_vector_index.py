"""Large LanceDB tables have an approximate index on vectors. No row is missed, and filters stay exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import lance
import numpy as np
import pytest

from tests.contract.stores import ALWAYS, near
from worker.vectors import Condition, Leg, Row, Vector
from worker.vectors.lance import vector_index
from worker.vectors.lance.store import LanceStore
from worker.vectors.lance.vector_index import GROWTH, NAME, is_due

SPACE, DIMENSIONS, ROWS, PER_PARTITION = "space", 20, 2_000, 50


def _vectors(rows: int) -> Vector:
    rng = np.random.default_rng(20261124)
    centers = rng.standard_normal((40, DIMENSIONS))
    return (centers[np.arange(rows) % 40] + 0.3 * rng.standard_normal((rows, DIMENSIONS))).astype(np.float32)


VECTORS = _vectors(GROWTH * ROWS + GROWTH * PER_PARTITION)


def _row(number: int) -> Row:
    return Row(UUID(int=number), VECTORS[number], {"file_name": f"{number}.md", "level": number % 1000})


def _store(place: Path, min_rows: int = ROWS) -> LanceStore:
    return LanceStore(place, has_keywords=False, thresholds=replace(ALWAYS, vector_index_rows=min_rows))


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


def test_a_narrow_filter_finds_what_is_far_away(indexed: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "PROBES", 1)
    kept = [7, 1007]
    assert near(indexed, SPACE, VECTORS[0], Condition("level", "in", [7])) == _exact(VECTORS[0], kept, 10)


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
