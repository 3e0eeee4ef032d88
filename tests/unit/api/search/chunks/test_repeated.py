"""A repeated query is ranked as if it had never been asked, whatever changes in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.search import pipeline
from api.search.chunks.candidates import RankedCandidates, fuse, rank_candidates, wanted_ids
from api.search.chunks.legs import Kind, Ranking
from api.search.chunks.repeated import RankingInputs, Repeated
from api.search.rank.weights import WEIGHTS
from schemas.queries.search import Context, Query
from tests.hit_rows import hit_row
from worker.state.search.found_chunks import HitRow
from worker.state.search.live_rows import FoundRows
from worker.vectors import Ranked

FIRST, SECOND = "token store", "refresh"
WORDS = ("token", "store", "refresh", "Client.send", "parse_header", "the", "water")
IDS = [str(UUID(int=number)) for number in range(90)]


class Index:
    """Rows that change, and what the legs find of them."""

    def __init__(self, seed: int) -> None:
        self.chance, self.version = random.Random(seed), 0
        self.rows = {id_: self._row(id_) for id_ in IDS}
        self.rankings = self._rankings()
        self.defining: Sequence[str] = ()

    def _row(self, id_: str) -> HitRow:
        self.version += 1
        pick, number = self.chance.choice, self.chance.randrange(12)
        return hit_row(
            id_,
            file_id=UUID(int=number),
            file_path=pick(("", "tests/", "vendor/", "src/")) + f"{pick(WORDS)}_{number}.py",
            file_id_path=f"/{number}",
            chunk_index=UUID(id_).int,
            file_type=pick(("code", "markdown")),
            chunk_text=" ".join(self.chance.choices(WORDS, k=12)),
            symbol=pick((None, *WORDS)),
            scope=pick((None, *WORDS)),
            version=str(self.version),
        )

    def _rankings(self) -> list[Ranking]:
        legs: tuple[tuple[str, Kind], ...] = (
            *((FIRST, kind) for kind in ("vector", "text", "code")),
            *((SECOND, kind) for kind in ("vector", "text")),
        )
        return [
            Ranking(text, kind, Ranked(self.chance.sample(IDS, 70), sorted(self.chance.random() for _ in range(70))))
            for text, kind in legs
        ]

    def change(self, what: str) -> None:
        id_ = self.chance.choice(self.rankings[0].ids[:20])
        if what == "row":
            self.rows[id_] = self._row(id_)
        elif what == "gone":
            self.rows.pop(id_, None)
        elif what == "rankings":
            self.rankings = self._rankings()
        elif what == "defining":
            self.defining = self.chance.sample(IDS, 2)

    def live(self, _pool: object, _index_id: UUID, ids: Sequence[str], _state: str = "") -> FoundRows:
        rows = {id_: self.rows[id_] for id_ in ids if id_ in self.rows}
        return FoundRows(rows, {id_: row.version for id_, row in rows.items()})

    def plain(self, request: Query) -> RankedCandidates:
        fusion = fuse(request, WEIGHTS, self.rankings, self.defining)
        rows = self.live(None, UUID(int=0), wanted_ids(request, fusion, {})).rows
        return rank_candidates(request, WEIGHTS, fusion, rows)


REQUESTS = st.builds(
    Query,
    query=st.just(FIRST),
    top_k=st.sampled_from([1, 10, 40]),
    explain=st.booleans(),
    rerank=st.sampled_from([None, "none"]),
    context=st.sampled_from([Context(), Context(path="src"), Context(symbol="token")]),
)


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.sampled_from(["", "", "row", "gone", "rankings", "defining"]), REQUESTS), max_size=9),
)
def test_any_query_is_ranked_by_what_is_there_now(seed: int, steps: list[tuple[str, Query]]) -> None:
    index = Index(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "live_rows", index.live)
        patch.setattr(pipeline, "_repeated", Repeated())
        for change, request in steps:
            index.change(change)
            search = Mock(request=request, index=Mock(id=UUID(int=7)))
            made = RankingInputs(index.rankings, index.defining)
            assert pipeline._rank(search, made, {})[0] == index.plain(request)


CHANGES: list[dict[str, Any]] = [
    {"query": SECOND},
    {"query": None, "queries": [FIRST, SECOND]},
    {"top_k": 40},
    {"mode": "vector"},
    {"rerank": "none"},
    {"group_by_file": True},
    {"explain": True},
    {"context": Context(path="src")},
    {"context": Context(symbol="token")},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(reversed(change)))
@pytest.mark.parametrize("is_first", [False, True])
def test_another_request_over_the_same_index_is_ranked_by_itself(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], is_first: bool
) -> None:
    index, plain = Index(5), {"query": FIRST, "rerank": "boost"}
    monkeypatch.setattr(pipeline, "live_rows", index.live)
    monkeypatch.setattr(pipeline, "_repeated", Repeated())
    for fields in ((plain | change, plain) if is_first else (plain, plain | change)) * 2:
        request = Query(**fields)
        made = RankingInputs(index.rankings, index.defining)
        found = pipeline._rank(Mock(request=request, index=Mock(id=UUID(int=7))), made, {})[0]
        assert found == index.plain(request)


def test_a_query_that_is_asked_again_is_not_ranked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index, ranked = Index(3), Mock(side_effect=rank_candidates)
    monkeypatch.setattr(pipeline, "live_rows", index.live)
    monkeypatch.setattr(pipeline, "_repeated", Repeated())
    monkeypatch.setattr(pipeline, "rank_candidates", ranked)
    for asked, change in enumerate(("", "row", "gone", "rankings", "defining")):
        index.change(change)
        for _ in range(3):
            made = RankingInputs([*index.rankings], index.defining)
            pipeline._rank(Mock(request=Query(query="token store"), index=Mock(id=UUID(int=7))), made, {})
        assert ranked.call_count == asked + 1


def test_a_query_over_several_indexes_is_kept_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = Mock(side_effect=rank_candidates)
    monkeypatch.setattr(pipeline, "_repeated", Repeated())
    monkeypatch.setattr(pipeline, "rank_candidates", ranked)
    indexes = [Index(3), Index(4)]
    for number in (0, 1, 0, 1):
        index = indexes[number]
        monkeypatch.setattr(pipeline, "live_rows", index.live)
        made = RankingInputs(index.rankings, index.defining)
        pipeline._rank(Mock(request=Query(query=FIRST), index=Mock(id=UUID(int=number))), made, {})
    assert ranked.call_count == 2
