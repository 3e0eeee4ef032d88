"""The nodes of one tree around a query: nearest summaries, children, leaves, and their distances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import MAX_DEPTH
from worker.state.index.tools import TREE, Index
from worker.state.pool import Pool
from worker.state.tree import views
from worker.state.tree.trees import Tree
from worker.state.tree.views import StoredSummary
from worker.vectors import Condition, Leg, Vector, VectorStore

#: Leaves whose vectors one search reads at most.
MAX_READ = 2000


@dataclass(frozen=True, slots=True)
class NearSummary:
    """A summary with its cosine distance from the query."""

    node: StoredSummary
    distance: float


@dataclass(frozen=True, slots=True)
class Forest:
    """A tree with its stores, and the vectors of the queries. The nearest of the queries counts.

    The caller may read only the summaries with the keys `readable`, and all without it.
    """

    pool: Pool
    store: VectorStore
    index: Index
    tree: Tree
    queries: Sequence[Vector]
    filters: ResolvedFilters
    readable: frozenset[str] | None = None

    def near_leaves(self, limit: int) -> dict[UUID, float]:
        """Distances of the chunks nearest to the query that pass the filters."""
        return self._nearest(self.index.namespace, limit, self.filters.conditions)[0]

    def near_summaries(self, limit: int, level: int | None = None, *, shown: bool = False) -> list[NearSummary]:
        """The live summaries nearest to the query, of all levels or of one, if a chunk that passes is below.

        `shown`: only those that the caller may read.

        The store also has those of a build that is not complete, perhaps many more; it is asked again for deeper ones.
        """
        conditions = [Condition("scope", "in", [str(self.tree.id)])]
        if level is not None:
            conditions.append(Condition("level", "in", [level]))
        depth = 2 * limit
        while True:
            distances, is_all = self._nearest(self.index.namespace + TREE, depth, conditions)
            found = self._passing(views.summaries(self.pool, self.tree, ids=list(distances)))
            found = [node for node in found if not shown or self._is_readable(node)]
            if is_all or len(found) >= limit or depth >= MAX_DEPTH:
                return _sorted(NearSummary(node, distances[node.id]) for node in found)[:limit]
            depth = min(MAX_DEPTH, 8 * depth)

    def children(self, above: Sequence[NearSummary]) -> list[NearSummary]:
        """The summaries that these summarise, nearest first, if a chunk that passes is below."""
        keys = list({child for each in above for child in each.node.children})
        found = self._passing(views.summaries(self.pool, self.tree, keys=keys))
        distances = self._distances(self.index.namespace + TREE, [node.id for node in found])
        return _sorted(NearSummary(node, distances[node.id]) for node in found if node.id in distances)

    def shown(self, found: Sequence[NearSummary]) -> list[NearSummary]:
        """The summaries that the caller may read: a search walks through others, but shows none."""
        return [each for each in found if self._is_readable(each.node)]

    def _is_readable(self, node: StoredSummary) -> bool:
        return self.readable is None or node.key in self.readable

    def _passing(self, nodes: Sequence[StoredSummary]) -> Sequence[StoredSummary]:
        if not self.filters.conditions:
            return nodes
        below = self.leaves_below(nodes)
        return [node for node in nodes if below.get(node.key)]

    def leaves_below(self, nodes: Sequence[StoredSummary]) -> dict[str, dict[str, UUID]]:
        """For each summary's key, its leaves: the hash of each with a chunk that passes the filters."""
        hashes = views.leaves_below(self.pool, self.tree, [node.key for node in nodes])
        distinct = list({hash_ for below in hashes.values() for hash_ in below})
        chunks = views.passing_chunks(self.pool, self.tree, distinct, self.filters.values)
        return {key: {hash_: chunks[hash_] for hash_ in below if hash_ in chunks} for key, below in hashes.items()}

    def leaf_distances(self, ids: Iterable[UUID], known: Mapping[UUID, float], enough: int) -> dict[UUID, float]:
        """Distances of chunks, of which some are known; those that are not are farther away than all known ones.

        Reads no vectors if at least `enough` are known.
        """
        wanted = list(dict.fromkeys(ids))
        found = {id_: known[id_] for id_ in wanted if id_ in known}
        if len(found) >= enough:
            return found
        others = [id_ for id_ in wanted if id_ not in known][:MAX_READ]
        return found | self._distances(self.index.namespace, others)

    def _nearest(self, namespace: str, limit: int, conditions: Sequence[Condition]) -> tuple[dict[UUID, float], bool]:
        """The distances of the rows nearest to each query, and whether these are all rows."""
        legs = [Leg(limit, vector=vector, conditions=conditions) for vector in self.queries]
        rankings = self.store.search(namespace, legs)
        distances: dict[UUID, float] = {}
        for row in (row for ranking in rankings for row in ranking):
            id_ = UUID(row.id)
            distances[id_] = min(row.value, distances.get(id_, row.value))
        return distances, all(len(ranking) < limit for ranking in rankings)

    def _distances(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, float]:
        vectors = self.store.vectors(namespace, ids) if ids else {}
        if not vectors:
            return {}
        rows, queries = np.stack(list(vectors.values())), np.stack(list(self.queries))
        lengths = np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(queries, axis=1)[None, :]
        nearest = (1 - (rows @ queries.T) / np.where(lengths, lengths, 1)).min(axis=1)
        return dict(zip(vectors, nearest.tolist(), strict=True))


def _sorted(found: Iterable[NearSummary]) -> list[NearSummary]:
    return sorted(found, key=lambda each: (each.distance, each.node.key))
