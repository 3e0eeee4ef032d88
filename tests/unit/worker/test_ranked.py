"""The answer of a leg as two columns: it behaves as a list of rows, and leaves the garbage collector nothing to do."""

from __future__ import annotations

import gc
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from worker.vectors import Leg, Ranked, RankedRow
from worker.vectors.lance.vector_cache import RankingCache, ranking_key
from worker.vectors.rows import ranked

VALUES = st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 1.0, 2.0])), max_size=20)


@given(VALUES, st.integers(0, 25), st.booleans())
def test_the_best_come_first_with_ties_by_id(found: list[tuple[str, float]], limit: int, descending: bool) -> None:
    best = ranked([id_ for id_, _ in found], [value for _, value in found], descending=descending, limit=limit)
    sign = -1 if descending else 1
    assert best == [RankedRow(*each) for each in sorted(found, key=lambda each: (sign * each[1], each[0]))[:limit]]
    assert [*best] == [best[at] for at in range(len(best))]
    assert best[1:3] == Ranked.of([*best][1:3])
    assert len(best) == len(best.ids) == len(best.values)


def test_answers_of_other_ids_or_values_differ() -> None:
    answer = Ranked(["a", "b"], [1.0, 2.0])
    assert answer == [RankedRow("a", 1.0), RankedRow("b", 2.0)]
    assert answer != Ranked(["a", "c"], [1.0, 2.0])
    assert answer != Ranked(["a", "b"], [1.0, 3.0])
    assert answer != [RankedRow("a", 1.0)]


def test_cached_answers_are_few_objects_to_the_garbage_collector() -> None:
    rankings, before = RankingCache(), len(gc.get_objects())
    for number in range(10):
        leg = Leg(1000, keywords=f"words {number}")
        found = ranked([str(uuid4()) for _ in range(1000)], [0.5] * 1000, descending=True, limit=1000)
        rankings.put(ranking_key("space", (1,), leg), found)
    assert len(gc.get_objects()) - before < 1000
