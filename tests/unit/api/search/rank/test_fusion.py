"""Fusing the rankings of legs into one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from api.search.rank.fusion import (
    RANK_CONSTANT,
    by_score,
    ranks_and_values,
    reciprocal_ranks,
    shared_ranks,
    weighted_sums,
)


def fused(*legs: tuple[float, Sequence[str], Sequence[int], Sequence[float]]) -> dict[str, float]:
    """The scores of ids by legs with a weight, and the rank and the value of each id."""
    return weighted_sums((weight, ids, ranks_and_values(ranks, values)) for weight, ids, ranks, values in legs)


def test_what_every_ranking_puts_first_scores_one() -> None:
    assert reciprocal_ranks([(2.0, ["a", "b"]), (0.5, ["a"])])["a"] == pytest.approx(1)
    assert fused((2.0, ["a", "b"], [1, 2], [1.0, 0.5]), (0.5, ["a"], [1], [1.0]))["a"] == pytest.approx(1)


def test_half_of_a_share_goes_by_rank_and_half_by_value() -> None:
    of_rank = (RANK_CONSTANT + 1) / (RANK_CONSTANT + 2)
    assert fused((3.0, ["a", "b"], [1, 2], [1.0, 0.2]))["b"] == pytest.approx((of_rank + 0.2) / 2)


def test_a_ranking_counts_by_its_weight() -> None:
    found = fused((3.0, ["a"], [1], [1.0]), (1.0, ["b"], [1], [1.0]))
    assert found == {"a": pytest.approx(3 / 4), "b": pytest.approx(1 / 4)}
    assert list(reciprocal_ranks([(1.0, ["b"]), (3.0, ["a"])])) == ["a", "b"]


def test_a_ranking_without_weight_or_results_adds_nothing() -> None:
    assert fused((1.0, ["a"], [1], [1.0]), (0.0, ["b"], [1], [1.0]), (1.0, [], [], [])) == {"a": pytest.approx(1)}
    assert reciprocal_ranks([(1.0, ["a"]), (0.0, ["b"]), (1.0, [])]) == {"a": pytest.approx(1)}


def test_the_best_come_first_and_equal_ones_by_id() -> None:
    assert list(by_score({"b": 0.5, "a": 0.5, "c": 0.9})) == ["c", "a", "b"]
    assert list(reciprocal_ranks([(1.0, ["b", "a"]), (1.0, ["a", "b"])])) == ["a", "b"]


def test_equal_values_share_a_rank_so_that_their_order_in_a_leg_does_not_count() -> None:
    assert shared_ranks([0.9, 0.5, 0.5, 0.5, 0.1, 0.1]) == [1, 2, 2, 2, 5, 5]
    assert shared_ranks([]) == []
    one, other = (
        fused((1.0, ids, shared_ranks([3, 3, 1]), [1.0, 1.0, 0.1])) for ids in (["a", "b", "c"], ["b", "a", "c"])
    )
    assert one == other
    assert one["a"] == one["b"] > one["c"]
