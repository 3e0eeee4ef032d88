"""Ranks a repeated query as before, as long as all that its ranking was made of stays the same."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

from api.search.chunks.candidates import Candidate, RankedCandidates
from api.search.chunks.legs import Ranking
from api.search.rank.confidence import Confidence
from schemas.queries.search import SearchRequest
from worker.machine.sharing.fair_cache import FairCache
from worker.state.search.found_chunks import HitRow

#: Number of queries whose ranking a process keeps, of about 50 kB each.
MAX_QUERIES = 256


@dataclass(frozen=True, slots=True)
class RankingInputs:
    """Inputs of a ranking before rows are read: the legs' rankings, and the chunks that define a name."""

    rankings: Sequence[Ranking]
    defining: Collection[str]


#: The index, and what else a ranking depends on.
_Key = tuple[UUID, Hashable]


@dataclass(frozen=True, slots=True)
class KeptRanking:
    """The ranking of a query: ids, best first, with scores, distances and twins, and the confidence of all.

    `versions` are those of its rows.
    """

    made: RankingInputs
    wanted: Sequence[str]
    versions: Mapping[str, str]
    ids: Sequence[str]
    scores: Sequence[float]
    distances: Sequence[float | None]
    also_in: Sequence[Sequence[str]]
    confidence: Confidence | None

    def ranked(self, request: SearchRequest, rows: Mapping[str, HitRow]) -> RankedCandidates:
        """The candidates as they were, best first, with their rows."""
        texts = request.texts
        candidates = [
            Candidate(id_, rows[id_], score, distance, {}, texts, {}, also_in)
            for id_, score, distance, also_in in zip(self.ids, self.scores, self.distances, self.also_in, strict=True)
        ]
        return RankedCandidates(candidates, self.confidence)


class Repeated:
    """The rankings of recent queries, fair between indexes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: FairCache[_Key, KeptRanking] = FairCache(MAX_QUERIES, lambda key: key[0])

    def get(self, index_id: UUID, request: SearchRequest, made: RankingInputs) -> KeptRanking | None:
        """The ranking that was made of the same, if the rows are still those of its versions."""
        if not _is_kept(request):
            return None
        with self._lock:
            kept = self._kept.get(_key(index_id, request))
        return kept if kept is not None and kept.made == made else None

    def put(
        self,
        index_id: UUID,
        request: SearchRequest,
        made: RankingInputs,
        wanted: Sequence[str],
        versions: Mapping[str, str],
        ranked: RankedCandidates,
    ) -> None:
        """Keep a ranking."""
        if not _is_kept(request):
            return
        ids, scores, distances, also_in = [], [], [], []
        for each in ranked.candidates:
            ids.append(each.id)
            scores.append(each.score)
            distances.append(each.distance)
            also_in.append(each.also_in)
        with self._lock:
            self._kept[_key(index_id, request)] = KeptRanking(
                made, wanted, versions, ids, scores, distances, also_in, ranked.confidence
            )


def _is_kept(request: SearchRequest) -> bool:
    """Whether a candidate consists of its id, score and distance alone."""
    return not request.explain and not request.group_by_file and len(request.texts) == 1


def _key(index_id: UUID, request: SearchRequest) -> _Key:
    """The cache key: everything that a ranking depends on besides `RankingInputs`."""
    context = request.context
    asked = (request.texts[0], request.mode, request.ranking, request.top_k, context.path, context.symbol)
    return index_id, asked
