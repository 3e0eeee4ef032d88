"""How points are parted before they are divided into clusters, and where clusters of one go."""

from __future__ import annotations

import numpy as np
import pytest

from worker.tree import fit
from worker.tree.fit import Divide, Points


def line(*places: float) -> Points:
    return np.array([[place, 0] for place in places], dtype=np.float32)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # the nearest of the larger clusters takes each
        ([[0, 1], [2, 3], [4]], [[0, 1], [2, 3, 4]]),
        ([[4], [0, 1], [2, 3], [5]], [[0, 1, 5], [2, 3, 4]]),
        # one that is in a larger cluster already stays there alone
        ([[0, 1], [2, 3], [1]], [[0, 1], [2, 3]]),
        ([[1, 0], [0, 1], [3, 2]], [[0, 1], [2, 3]]),
        # nothing larger is there to join
        ([[2], [0], [1]], [[0, 1, 2]]),
        ([[0]], []),
        ([], []),
    ],
)
def test_clusters_of_one_join_the_nearest_other(found: list[list[int]], expected: list[list[int]]) -> None:
    points = line(0, 1, 10, 11, 8, 4)
    assert fit._without_single(points, found) == expected


@pytest.mark.parametrize("divide", [fit._by_mixture, fit._by_means])
def test_a_point_is_in_the_cluster_of_its_neighbours(divide: Divide) -> None:
    found = divide(line(0, 1, 2, 100, 101, 102, 103, 104), [2])
    assert sorted(map(sorted, found)) == [[0, 1, 2], [3, 4, 5, 6, 7]]


class Halves:
    """Divides points into two halves, or not at all. Notes the numbers of clusters that are tried."""

    def __init__(self, *, divides: bool = True) -> None:
        self.divides, self.tried = divides, list[list[int]]()

    def __call__(self, points: Points, trials: list[int]) -> list[list[int]]:
        self.tried.append(trials)
        everything = list(range(len(points)))
        half = len(points) // 2
        return [everything[:half], everything[half:]] if self.divides else [everything]


@pytest.mark.parametrize("divides", [True, False])
def test_many_points_are_parted_until_each_part_is_small(monkeypatch: pytest.MonkeyPatch, divides: bool) -> None:
    monkeypatch.setattr(fit, "MAX_POINTS", 8)
    halves = Halves(divides=divides)
    parts = fit._parts(line(*range(30)), halves)
    assert sorted(index for part in parts for index in part) == list(range(30))
    assert all(len(part) <= 8 for part in parts)
    assert parts == sorted(parts)
    # of two points or more at a time, into as many parts as a quarter of the most asks for
    assert halves.tried[0] == fit._trials(2, 15)
    assert fit._parts(line(*range(8)), halves) == [list(range(8))]


def test_no_more_parts_than_so_many_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MAX_POINTS", 8)
    monkeypatch.setattr(fit, "MAX_PARTS", 3)
    halves = Halves()
    fit._parts(line(*range(30)), halves)
    assert max(halves.tried[0]) == 3


def test_a_part_is_divided_from_twice_the_least_size_on() -> None:
    halves, points = Halves(), line(*range(20))
    part = [1, 3, 5, 7, 9]
    assert fit._within(points, part, halves, 3) == [part]
    assert fit._within(points, [*part, 11], halves, 3) == [[1, 3, 5], [7, 9, 11]]
    assert halves.tried == [[1, 2]]


def test_numbers_of_clusters_are_tried_from_the_least_to_the_most() -> None:
    assert fit._trials(1, 1) == [1]
    assert fit._trials(2, 1) == [2]
    assert fit._trials(1, 5) == [1, 2, 3, 4, 5]
    many = fit._trials(2, 100)
    assert (len(many), many[0], many[-1]) == (fit.TRIALS, 2, 100)
