"""The order of leaves that are found directly and through summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from api.search.tree.forest import Forest, NearSummary
from api.search.tree.walks import LeafHit, collapsed
from worker.state.tree.views import StoredSummary


def leaf(number: int) -> UUID:
    return UUID(int=number)


@dataclass
class Grove:
    """A tree by its distances: leaf `n` is 0.01 n away, and each summary has leaves."""

    near: Sequence[int]
    summaries: Mapping[float, Sequence[int]]

    def near_leaves(self, limit: int) -> dict[UUID, float]:
        return {leaf(number): 0.01 * number for number in self.near[:limit]}

    def near_summaries(self, limit: int, *, shown: bool) -> list[NearSummary]:
        nodes = [
            NearSummary(StoredSummary(UUID(int=1000 + n), str(n), 1, "said", []), distance)
            for n, distance in enumerate(self.summaries)
        ]
        return nodes[:limit]

    def leaves_below(self, nodes: Sequence[StoredSummary]) -> dict[str, dict[str, UUID]]:
        below = list(self.summaries.values())
        return {node.key: {str(number): leaf(number) for number in below[int(node.key)]} for node in nodes}

    def leaf_distances(self, ids: Iterable[UUID], known: Mapping[UUID, float], **_: int) -> dict[UUID, float]:
        return {id_: known.get(id_, 0.01 * id_.int) for id_ in ids}


def found(grove: Grove, top_k: int) -> list[LeafHit]:
    return list(collapsed(cast("Forest", grove), top_k, expand=True).leaves)


def test_many_leaves_of_a_summary_do_not_displace_nearer_ones() -> None:
    grove = Grove(near=[1, 2, 3, 4], summaries={0.005: [3, 50, 60, 70, 80]})
    hits = found(grove, 4)
    assert [hit.id.int for hit in hits[:4]] == [1, 2, 3, 50]
    assert [hit.summary is not None for hit in hits[:4]] == [False, False, True, True]


def test_a_summary_adds_leaves_that_are_far_from_the_query() -> None:
    hits = found(Grove(near=[1, 2, 3, 4], summaries={0.005: [90]}), 4)
    assert [hit.id.int for hit in hits[:4]] == [1, 2, 3, 90]


def test_leaves_reached_twice_leave_room_for_the_next() -> None:
    hits = found(Grove(near=[1, 2, 3, 4, 5], summaries={0.005: [1, 2], 0.006: [2, 1]}), 4)
    assert [hit.id.int for hit in hits] == [1, 2, 3, 4, 5]


def test_scores_fall_with_the_rank() -> None:
    hits = found(Grove(near=list(range(1, 30)), summaries={0.005: [2, 95], 0.006: [99]}), 5)
    assert len({hit.id for hit in hits}) == len(hits) == 31
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.distance for hit in hits if hit.id == leaf(25)] == [0.25]
