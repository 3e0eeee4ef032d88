"""More rows than a store accepts or returns in one request."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tests.contract.stores import D, axis, make, row
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.vectors import turbopuffer
from worker.vectors.lance import store as lance


@pytest.mark.parametrize("kind", ["lance", "fake"])
def test_ids_beyond_one_page_are_given(kind: str, tmp_path: Path, fake: FakeTurbopuffer) -> None:
    store = make(kind, tmp_path, fake)
    most = turbopuffer.MAX_LIMIT
    everything = [UUID(int=number) for number in range(most + 1)]
    store.write("a", D, [row(number, axis(0)) for number in range(most + 1)])
    assert store.ids("a", None, 2 * most) == everything
    assert store.ids("a", None, most + 1) == everything
    assert store.ids("a", None, most) == everything[:most]
    assert store.ids("a", everything[0], most) == everything[1:]
    assert store.ids("a", everything[-2], most) == everything[-1:]


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("kind", ["lance", "fake"])
def test_vectors_and_deletes_of_many_ids(kind: str, beyond: int, tmp_path: Path, fake: FakeTurbopuffer) -> None:
    store = make(kind, tmp_path, fake)
    number = lance.MAX_IDS + beyond
    ids = [UUID(int=each) for each in range(number)]
    store.write("a", D, [row(each, axis(each % D)) for each in range(number + 1)])
    found = store.vectors("a", ids)
    assert len(found) == number
    assert all(found[id_][id_.int % D] == pytest.approx(1.0) for id_ in ids)
    store.write("a", D, deletes=ids)
    assert store.ids("a", None, number) == [UUID(int=number)]
