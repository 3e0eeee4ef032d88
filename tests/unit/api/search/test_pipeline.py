"""What every search does with the hits that it finds: how deep it looks, which hits it keeps, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from api.http.disconnect import Disconnect
from api.search import pipeline
from api.search.query.coverage import Covered
from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import MAX_DEPTH, MIN_DEPTH, Findings, IndexSearch, note
from api.search.query.long_query import LONG_CHARACTERS
from api.search.query.refresh import Freshness
from api.search.tree.answer import answer_by_tree
from schemas.errors import Invalid, NoTree, RerankNotConfigured
from schemas.queries.metadata import PLAIN
from schemas.queries.search import Answer, Coverage, Hit, Note, Query
from tests.unit.api.search.text.test_snippets import hit
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.counting import NO_COUNTS
from worker.state.tree import trees


class Finding:
    """Finds these hits, and notes the search that is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scores: Sequence[float] = ()) -> None:
        self.hits = [hit(f"text {number}", 10 * number, number, score) for number, score in enumerate(scores)]
        self.search: IndexSearch | None = None
        fresh = Freshness(3, [Note(code="index_stale", detail="Some files changed.")])
        monkeypatch.setattr(pipeline, "refresh", lambda *_, **__: fresh)
        monkeypatch.setattr(
            pipeline, "filters_of", lambda _pool, _index, query, _check: ResolvedFilters(query.filters, None)
        )
        monkeypatch.setattr(pipeline, "coverage", self.coverage)

    @staticmethod
    def coverage(*given: Any, vectors_missing: bool) -> Covered:
        indexed = 0 if vectors_missing else 5
        found = Coverage(indexed_files=indexed, total_files=9, stale_files=given[3])
        return Covered(found, NO_COUNTS, "hybrid", whole=True)

    def find(self, search: IndexSearch) -> Findings:
        self.search = search
        return Findings(
            self.hits, note("here", "Found.") + search.step("find", 0.0, len(self.hits)), vectors_missing=True
        )

    def answered(self, *, bounded: bool = False, **asked: Any) -> Answer:
        index: Any = Mock(url_template=None, metadata=PLAIN)
        index.settings.bounded = bounded
        query = Query.model_validate({"query": "q", **asked})
        return pipeline.answer_by(self.find, Mock(), uuid4(), index, query, disconnect=Disconnect())

    @property
    def asked(self) -> IndexSearch:
        assert self.search is not None
        return self.search


@pytest.mark.parametrize(
    ("top_k", "depth"),
    [
        (MIN_DEPTH // 2, MIN_DEPTH),
        (MIN_DEPTH // 2 + 1, MIN_DEPTH + 2),
        (MAX_DEPTH // 2, MAX_DEPTH),
        (MAX_DEPTH // 2 + 1, MAX_DEPTH),
    ],
)
def test_legs_are_twice_as_deep_as_the_answer_within_bounds(
    monkeypatch: pytest.MonkeyPatch, top_k: int, depth: int
) -> None:
    finding = Finding(monkeypatch)
    finding.answered(top_k=top_k)
    assert finding.asked.depth == depth


@pytest.mark.parametrize(
    ("bounded", "asked", "whole"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_whole_files_follow_if_they_are_asked_for_and_there_may_be_some(
    monkeypatch: pytest.MonkeyPatch, bounded: bool, asked: bool, whole: bool
) -> None:
    finding = Finding(monkeypatch)
    finding.answered(bounded=bounded, include_unembedded=asked)
    assert finding.asked.whole_files is whole


def scores_and_notes(answer: Answer) -> tuple[list[float], list[str]]:
    assert answer.total_results == len(answer.results)
    return [each.score for each in answer.results], [each.code for each in answer.notes]


def test_hits_below_the_least_score_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(monkeypatch, [0.9, 0.5, 0.4])
    known = ["index_stale", "here"]
    assert scores_and_notes(finding.answered()) == ([0.9, 0.5, 0.4], known)
    assert scores_and_notes(finding.answered(min_score=0.5)) == ([0.9, 0.5], known)
    answer = finding.answered(min_score=0.95)
    assert scores_and_notes(answer) == ([], [*known, "below_min_score"])
    assert "All 3 hits" in answer.notes[-1].detail
    assert "the best has 0.9." in answer.notes[-1].detail
    # nothing was found, whatever its score
    assert scores_and_notes(Finding(monkeypatch).answered(min_score=0.5)) == ([], known)


def test_an_answer_says_what_it_covers_and_its_steps_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(monkeypatch, [0.5])
    plain, traced = finding.answered(), finding.answered(trace=True)
    assert plain.coverage == Coverage(indexed_files=0, total_files=9, stale_files=3)
    assert plain.trace is None
    assert [(each.step, each.found) for each in traced.trace or ()] == [("find", 1)]


def first(
    monkeypatch: pytest.MonkeyPatch, hits: Sequence[Hit], **asked: Any
) -> list[tuple[int, tuple[int, int] | None]]:
    """The first characters of the hits, with the neighbours that were asked for."""
    neighbours: list[tuple[int, int]] = []

    def with_neighbours(_pool: object, _id: object, given: list[Hit], before: int, after: int) -> list[Hit]:
        neighbours.append((before, after))
        return given

    monkeypatch.setattr(pipeline, "with_neighbours", with_neighbours)
    request = Query.model_validate({"query": "q", **asked})
    search = IndexSearch(
        Mock(), Mock(), Mock(), request, ResolvedFilters(request.filters, None), 10, False, Disconnect()
    )
    found = pipeline.cut(search, iter(hits))
    return [(each.start_char, neighbours[0] if neighbours else None) for each in found]


def test_the_first_chunks_or_files_come_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = UUID(int=1), UUID(int=2)
    hits = [
        hit("a", 0, 0, file=one),
        hit("b", 50, 5, file=one),
        hit("c", 9, 0, file=other),
        hit("d", 90, 9, file=other),
    ]
    assert first(monkeypatch, hits, top_k=3) == [(0, None), (50, None), (9, None)]
    assert [start for start, _ in first(monkeypatch, hits, top_k=2, group_by_file=True)] == [0, 9]
    assert len(first(monkeypatch, hits, top_k=1, group_by_file=True)) == 1
    assert first(monkeypatch, hits, top_k=1, before=2) == [(0, (2, 0))]
    assert first(monkeypatch, hits, top_k=1, after=3) == [(0, (0, 3))]


def test_a_query_that_cannot_be_answered_compares_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compare = Mock(side_effect=AssertionError)
    monkeypatch.setattr(pipeline, "refresh", compare)
    monkeypatch.setattr(trees, "of_tool", lambda *_: None)
    resources = Resources(Settings(foldex_home=tmp_path, database_url="postgresql://nowhere.invalid/none"))
    for answer, refused, asked in (
        (pipeline.answer_query, RerankNotConfigured, {"rerank": "model"}),
        (answer_by_tree, Invalid, {"tree": "collapsed", "mode": "keyword"}),
        (answer_by_tree, NoTree, {"tree": "collapsed"}),
    ):
        query = Query.model_validate({"query": "q", "refresh": "wait", **asked})
        with pytest.raises(refused):
            answer(resources, uuid4(), Mock(), query, disconnect=Disconnect())


def test_a_long_query_is_searched_in_parts_and_its_hits_name_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    finding, long = Finding(monkeypatch, [0.9, 0.8]), "word " * (LONG_CHARACTERS // 5 + 1)
    answer = finding.answered(query=long)
    parts = finding.asked.request.texts
    assert len(parts) > 1
    assert set(" ".join(parts).split()) == {"word"}
    assert [note.code for note in answer.notes] == ["index_stale", "query_split", "here"]
    finding.hits = [each.model_copy(update={"matched_queries": parts}) for each in finding.hits]
    assert [each.matched_queries for each in finding.answered(query=long).results] == [[long.strip()]] * 2
