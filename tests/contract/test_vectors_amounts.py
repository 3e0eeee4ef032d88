"""More rows than a store accepts or returns in one request."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from tests.contract.stores import D, about, axis, make, near, of_file, row
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.vectors import Condition, Patch
from worker.vectors.lance import row_tables
from worker.vectors.ties import TIES
from worker.vectors.turbopuffer_rows import MAX_LIMIT


@pytest.mark.parametrize("kind", ["lance", "fake"])
def test_ids_beyond_one_page_are_given(kind: str, tmp_path: Path, fake: FakeTurbopuffer) -> None:
    store = make(kind, tmp_path, fake)
    most = MAX_LIMIT
    everything = [UUID(int=number) for number in range(most + 1)]
    store.write("a", D, [row(number, axis(0)) for number in range(most + 1)])
    assert store.ids("a", None, 2 * most) == everything
    assert store.ids("a", None, most + 1) == everything
    assert store.ids("a", None, most) == everything[:most]
    assert store.ids("a", everything[0], most) == everything[1:]
    assert store.ids("a", everything[-2], most) == everything[-1:]


def test_attributes_beyond_one_page_are_given(
    fake: FakeTurbopuffer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.vectors.turbopuffer.MAX_LIMIT", 10)
    store = make("fake", tmp_path, fake)
    everything = [UUID(int=number) for number in range(21)]
    store.write("a", D, [row(number, axis(0)) for number in range(21)])
    for limit in (9, 10, 11, 20, 21, 30):
        assert [*store.attributes("a", None, limit)] == everything[:limit]
        assert [*store.attributes("a", everything[3], limit)] == everything[4:][:limit]


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("kind", ["lance", "fake"])
def test_vectors_patches_and_deletes_of_many_ids(kind: str, beyond: int, tmp_path: Path, fake: FakeTurbopuffer) -> None:
    store = make(kind, tmp_path, fake)
    number = row_tables.MAX_IDS + beyond
    ids = [UUID(int=each) for each in range(number)]
    store.write("a", D, [row(each, axis(each % D)) for each in range(number + 1)])
    found = store.vectors("a", ids)
    assert len(found) == number
    assert all(found[id_][id_.int % D] == pytest.approx(1.0) for id_ in ids)
    store.write("a", D, patches=[Patch(id_, of_file("new")) for id_ in ids])
    names = [values["file_name"] for values in store.attributes("a", None, number + 1).values()]
    assert names == ["new"] * number + [f"{number}.md"]
    store.write("a", D, deletes=ids)
    assert store.ids("a", None, number) == [UUID(int=number)]


@pytest.mark.parametrize("rows", [TIES, 4 * TIES + 1, 10 * TIES])
@pytest.mark.parametrize("kind", ["lance-keywords", "held-keywords", "fake-keywords"])
def test_any_number_of_equal_hits_comes_by_id(kind: str, rows: int, tmp_path: Path, fake: FakeTurbopuffer) -> None:
    store = make(kind, tmp_path, fake)
    shuffled = random.Random(rows).sample(range(1, rows + 1), rows)
    for part in (shuffled[::2], shuffled[1::2]):
        store.write("a", D, [row(number, axis(0), "lease") for number in part])
    store.write("a", D, [row(0, axis(0, tilt=0.1), "lease renewed every day")])
    assert near(store, "a", axis(0), limit=10) == list(range(1, 11))
    assert near(store, "a", axis(0), Condition("level", "in", [0]), limit=10) == list(range(1, 11))
    assert about(store, "a", "lease", limit=10) == list(range(1, 11))
