"""Clusters that a tree keeps while few of its texts change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from worker.tree.clusters import REFIT_DIVISOR, ClusterItem, Clusters, KeptCluster, by_kept

FITTED = 2 * REFIT_DIVISOR
#: Texts of two clusters, and where each lies.
LEFT, RIGHT = "abcde", "vwxyz"
KEPT = [KeptCluster(7, frozenset(LEFT)), KeptCluster(9, frozenset(RIGHT))]


def kept(members: str, changed: int = 0, clusters: Sequence[KeptCluster] = KEPT) -> Clusters | None:
    """The clusters of these texts, of which those in capitals are new and lie with the others of their half."""
    items = [ClusterItem(member, member, "") for member in members]
    lies = [[1.0, 0.1] if member.lower() in LEFT else [0.1, 1.0] for member in members]
    return by_kept(items, np.array(lies, dtype=np.float32), clusters, [FITTED, changed])


def named(found: Clusters | None, members: str) -> dict[int, str]:
    assert found is not None
    return {slot: "".join(members[index] for index in indices) for slot, indices in found.members}


@pytest.mark.parametrize("members", ["abcdevwxyz", "zyxwvedcba", "avbwcxdyez"])
def test_unchanged_texts_keep_their_clusters_in_any_order(members: str) -> None:
    found = kept(members)
    assert {slot: set(of_slot) for slot, of_slot in named(found, members).items()} == {7: set(LEFT), 9: set(RIGHT)}
    assert found is not None
    assert found.fit == [FITTED, 0]


def test_a_new_text_joins_the_nearest_cluster() -> None:
    members = "abcdevwxyzAZ"
    found = kept(members)
    assert named(found, members) == {7: "abcdeA", 9: "vwxyzZ"}
    assert found is not None
    assert found.fit == [FITTED, 2]


@pytest.mark.parametrize(
    ("members", "changed", "total"),
    [
        ("abcdevwxyzAB", 0, 2),
        ("abcdevwxyzABC", 0, None),
        ("abcdevwx", 0, 2),
        ("abcdevw", 0, None),
        # an edit removes one text and adds another
        ("abcevwxyAZ", 0, 2),
        ("abcdevwxyzA", 1, 2),
        ("abcdevwxyzA", 2, None),
        ("abcdevwxyz", 2, 2),
    ],
)
def test_a_layer_is_clustered_anew_once_too_many_texts_changed(members: str, changed: int, total: int | None) -> None:
    found = kept(members, changed)
    assert (found and found.fit) == (None if total is None else [FITTED, total])


def test_a_cluster_whose_texts_are_gone_ends() -> None:
    few = [*KEPT, KeptCluster(11, frozenset("q"))]
    assert set(named(kept("abcdevwxyz", clusters=few), "abcdevwxyz")) == {7, 9}
    assert kept("AZ", clusters=[KeptCluster(11, frozenset("q"))]) is None
