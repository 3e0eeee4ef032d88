"""Two ways through a tree: all levels at once, or from the top down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from api.search.query.index_search import MIN_DEPTH
from api.search.tree.forest import Forest, NearSummary


@dataclass(frozen=True, slots=True)
class LeafHit:
    """A chunk, with the summary that led to it. `score` falls with the rank; `distance` is the chunk's own."""

    id: UUID
    score: float
    distance: float
    summary: NearSummary | None


@dataclass(frozen=True, slots=True)
class FoundInTree:
    """Chunks and summaries, best first."""

    leaves: Sequence[LeafHit]
    summaries: Sequence[NearSummary]


def collapsed(forest: Forest, top_k: int, *, expand: bool) -> FoundInTree:
    """One flat top-k over leaves and summaries of all levels.

    With `expand`, each summary is replaced by its leaves, and all leaves are ranked by their own nearness.
    """
    near = forest.near_leaves(max(MIN_DEPTH, 2 * top_k))
    summaries = forest.near_summaries(top_k, shown=True)
    flat: list[tuple[float, str, UUID | NearSummary]] = [(d, str(id_), id_) for id_, d in near.items()]
    flat += [(each.distance, str(each.node.id), each) for each in summaries]
    # twice as many leaves: of some the row may be gone
    entries = [entry for _, _, entry in sorted(flat, key=lambda item: item[:2])]
    chosen = [entry for entry in entries[:top_k] if isinstance(entry, NearSummary)]
    if not expand:
        room = top_k - len(chosen)
        leaves = [_direct(entry, near[entry]) for entry in entries if isinstance(entry, UUID)]
        return FoundInTree(leaves[: 2 * room], chosen)
    below = forest.leaves_below([each.node for each in chosen])
    ids = [id_ for leaves_of in below.values() for id_ in leaves_of.values()]
    distances = forest.leaf_distances(ids, near, enough=len(ids))
    return FoundInTree(list(_expanded(entries, top_k, near, below, distances)), [])


def _expanded(
    entries: Sequence[UUID | NearSummary],
    top_k: int,
    near: dict[UUID, float],
    below: dict[str, dict[str, UUID]],
    distances: dict[UUID, float],
) -> Iterator[LeafHit]:
    """The leaves of the first `top_k` entries, nearest first, then further leaves, in case some are gone.

    Leaves of summaries share one order with the others: a summary may have more leaves than an answer has places.
    """
    known = distances | near
    reached: dict[UUID, NearSummary | None] = {}
    for rank, entry in enumerate(entries):
        if isinstance(entry, UUID):
            if rank < top_k or len(reached) < top_k:
                reached.setdefault(entry, None)
        elif rank < top_k:
            for id_ in below.get(entry.node.key, {}).values():
                if id_ in known:
                    reached.setdefault(id_, entry)
    lowest = 1.0
    for id_ in sorted(reached, key=lambda each: (known[each], str(each))):
        lowest = _score(known[id_])
        yield LeafHit(id_, lowest, known[id_], reached[id_])
    for entry in entries:
        if isinstance(entry, UUID) and entry not in reached:
            yield LeafHit(entry, min(lowest, _score(near[entry])), near[entry], None)


def traversal(forest: Forest, top_k: int, *, beam: int, top_level: int, expand: bool) -> FoundInTree:
    """From the top level down: of each level the `beam` nearest summaries, and below them only their children."""
    if top_level == 0:
        near = forest.near_leaves(max(MIN_DEPTH, 2 * top_k))
        return FoundInTree(
            [_direct(id_, d) for id_, d in sorted(near.items(), key=lambda item: (item[1], str(item[0])))], []
        )
    chosen = forest.near_summaries(beam, top_level)
    visited = list(chosen)
    for _ in range(top_level - 1):
        chosen = forest.children(chosen)[:beam]
        visited += chosen
    below = forest.leaves_below([each.node for each in chosen])
    ids = [id_ for leaves_of in below.values() for id_ in leaves_of.values()]
    distances = forest.leaf_distances(ids, {}, enough=len(ids) + 1)
    first: dict[UUID, NearSummary] = {}
    for each in chosen:
        for id_ in below.get(each.node.key, {}).values():
            first.setdefault(id_, each)
    ranked = sorted(distances.items(), key=lambda item: (item[1], str(item[0])))
    shown = forest.shown(chosen if expand else visited)
    through = {each.node.key for each in shown} if expand else set[str]()
    leaves = [LeafHit(id_, _score(d), d, first[id_] if first[id_].node.key in through else None) for id_, d in ranked]
    return FoundInTree(leaves, [] if expand else shown)


def _direct(id_: UUID, distance: float) -> LeafHit:
    return LeafHit(id_, _score(distance), distance, None)


def _score(distance: float) -> float:
    return min(1.0, max(0.0, 1 - distance))
