"""The k-th largest of many values, also where most of them are equal."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.vectors.lance.largest import GROUPS, MOST_IN_GROUP, kth_largest

CHANCE = np.random.default_rng(5)
COUNT = 3 * GROUPS * MOST_IN_GROUP + 7
VALUES: dict[str, NDArray[np.floating]] = {
    "all differ": CHANCE.random(COUNT),
    "rising": np.arange(COUNT) * 1.0,
    "falling": -np.arange(COUNT) * 1.0,
    "all equal": np.ones(COUNT),
    "few above": np.where(CHANCE.random(COUNT) < 0.02, 2.0, 1.0),
    "few below": np.where(CHANCE.random(COUNT) < 0.02, 0.0, 1.0),
    "the last above": np.where(np.arange(COUNT) >= COUNT - 3, 2.0, 1.0),
    "few values": CHANCE.integers(0, 3, COUNT) / 3,
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("k", [1, 2, 3, 6, 7, 100, COUNT - 1, COUNT])
def test_it_is_what_a_sort_finds(name: str, k: int) -> None:
    for values in (VALUES[name], VALUES[name].astype(np.float32)):
        assert kth_largest(values, k) == np.sort(values)[-k]


def test_few_values_are_enough() -> None:
    assert kth_largest(np.array([3.0]), 1) == 3
    assert kth_largest(np.array([3.0, 1.0, 2.0]), 2) == 2


def test_integers_that_no_float_tells_apart_are_exact() -> None:
    values = np.arange(COUNT, dtype=np.uint64) + np.uint64(2**63)
    for order in (values, values[::-1]):
        assert [kth_largest(order, k) for k in (1, 7, COUNT)] == [2**63 + COUNT - k for k in (1, 7, COUNT)]
