"""Parallel legs: if the store or Postgres fails or is slow, the other answers, and no work is done for nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import numpy as np
import pytest
from psycopg_pool import PoolTimeout

from api.http.disconnect import CallerLeft, Disconnect
from api.http.shares import KEYWORD_THREADS
from api.search.chunks import legs
from api.search.chunks.legs import MIN_LEGIBILITY, MIN_SPAN, NEAREST, PHRASE_DEPTH, Kind, LegResults, Ranking, run_legs
from api.search.query.filters import ResolvedFilters
from api.search.query.index_search import IndexSearch
from schemas.errors import EmbeddingUnavailable, FoldexError, StoreUnauthorized, StoreUnavailable
from schemas.queries.search import Filters, Query
from worker.embed.local import e5, minilm
from worker.settings import LOCAL_MODEL
from worker.state.search import found_chunks, keywords, languages
from worker.tokens.keywords import IN_ENGLISH
from worker.vectors import Leg, Ranked, RankedRow

FOUND = (str(UUID(int=1)), 1.0)


class Keywords:
    """A fake Postgres: `fails` with an error, or waits until `go` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: Exception | None = None
        self.go = Event()
        self.go.set()

    def search(
        self, _pool: Any, values: dict[str, Any], _field: str, _written: frozenset[str]
    ) -> list[tuple[str, float]]:
        self.asked.append(values["query"])
        assert self.go.wait(30)
        if self.fails is not None:
            raise self.fails
        return [FOUND]


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keywords]:
    fake = Keywords()
    monkeypatch.setattr(keywords, "search", fake.search)
    monkeypatch.setattr(languages, "of_index", lambda _pool, _index_id: IN_ENGLISH)
    vectors = np.ones(2, np.float32)
    monkeypatch.setattr(legs, "begin_queries", lambda _r, _i, texts: nullcontext(lambda: [vectors for _ in texts]))
    yield fake
    fake.go.set()


def search(mode: str = "hybrid", *, store_fails: Exception | None = None, queries: int = 1) -> IndexSearch:
    store = Mock(has_keywords=False)
    store.search.side_effect = store_fails or (lambda _, asked: [[RankedRow(*FOUND)] for _ in asked])
    request = Query.model_validate({"queries": [f"q{number}" for number in range(queries)], "mode": mode})
    filters = ResolvedFilters(Filters(), None)
    return IndexSearch(Mock(), Mock(), store, request, filters, depth=10, whole_files=False, disconnect=Disconnect())


def kinds_and_notes(results: LegResults) -> tuple[list[str], list[str]]:
    return [ranking.kind for ranking in results.rankings], [note.code for note in results.report.notes]


@pytest.mark.parametrize("error", [StoreUnauthorized("The key is refused."), StoreUnavailable("The store is away.")])
def test_keywords_answer_where_the_store_does_not(postgres: Keywords, error: FoldexError) -> None:
    assert kinds_and_notes(run_legs(search(store_fails=error))) == (["text", "code"], ["keywords_only"])
    with pytest.raises(type(error)):
        run_legs(search("vector", store_fails=error))


@pytest.mark.parametrize("error", [PoolTimeout("no connection"), StoreUnavailable("Postgres takes too long.")])
def test_meaning_answers_where_postgres_does_not(postgres: Keywords, error: Exception) -> None:
    postgres.fails = error
    assert kinds_and_notes(run_legs(search())) == (["vector"], ["meaning_only"])
    with pytest.raises(type(error)):
        run_legs(search("keyword"))


def test_postgres_is_not_waited_for_without_end(postgres: Keywords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legs, "KEYWORD_SECONDS", 0.2)
    postgres.go.clear()
    assert kinds_and_notes(run_legs(search())) == (["vector"], ["meaning_only"])
    with pytest.raises(StoreUnavailable, match=r"0\.2 s"):
        run_legs(search("keyword"))


def test_nothing_begins_for_a_search_that_failed_or_whose_caller_left(postgres: Keywords) -> None:
    postgres.go.clear()
    begun = rankings_of_many()
    until = time.monotonic() + 10
    while len(postgres.asked) < 16:
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(RuntimeError):
        run_legs(search(store_fails=RuntimeError("a bug")))
    abandoned = search()
    abandoned.disconnect.event.set()
    with pytest.raises(CallerLeft):
        run_legs(abandoned)
    postgres.go.set()
    for future in begun:
        future.result(10)
    KEYWORD_THREADS.submit("other", str).result(10)
    assert set(postgres.asked) == {"other"}


def rankings_of_many() -> list[Any]:
    """Another search's keywords, which occupy all threads."""
    return [
        KEYWORD_THREADS.submit(owner, partial(keywords.search, Mock(), {"query": "other"}, "text", IN_ENGLISH))
        for owner in ("one", "two")
        for _ in range(8)
    ]


def values(kind: Kind, *found: float) -> list[float]:
    return Ranking("q", kind, [RankedRow(str(UUID(int=n)), value) for n, value in enumerate(found)]).values


def test_keyword_scores_are_worth_their_squared_share_of_the_best() -> None:
    assert values("code", 8, 4, 0) == [1, 0.25, 0]


def test_distances_are_worth_how_much_nearer_they_are_than_the_furthest() -> None:
    assert values("vector", 0.25, 0.5, 0.75) == [1, 0.5, 0]


def test_distances_that_hardly_differ_are_worth_little() -> None:
    assert values("vector", 0.5, 0.5 + MIN_SPAN) == pytest.approx([1, 0])
    assert values("vector", 0.5, 0.5 + 2 * MIN_SPAN) == [1, 0]
    assert values("vector", 0.5, 0.5 + MIN_SPAN / 4, 0.5 + MIN_SPAN / 2) == pytest.approx([0.5, 0.25, 0])


def test_values_are_the_same_whatever_the_depth_of_a_leg() -> None:
    few = [number / 1000 for number in range(NEAREST)]
    assert values("vector", *few, 0.5, 0.9) == [*values("vector", *few), 0, 0]


def test_equal_rows_are_worth_the_same() -> None:
    assert values("text", 5, 5) == values("text", 5, 5, 5)[1:] == [1, 1]
    assert values("vector", 0.5, 0.5) == [0, 0]
    assert values("text", 0, 0) == [1, 1]
    assert values("text") == values("vector") == []


class Store:
    """A store with keywords that notes what it is asked for, and finds one row of each leg."""

    has_keywords = True

    def __init__(self, *, is_here: bool, fails: Exception | None = None) -> None:
        self.is_here, self.fails = is_here, fails
        self.asked: list[list[str]] = []

    def search(self, _: str, asked: list[Leg]) -> list[Ranked]:
        kinds = ["vector" if leg.vector is not None else leg.field for leg in asked]
        self.asked.append(kinds)
        if self.fails is not None:
            raise self.fails
        return [Ranked([str(UUID(int=len(kind))), "b"], [2.0, 1.0]) for kind in kinds]


def search_with(store: Any, mode: str = "hybrid") -> IndexSearch:
    return replace(search(mode), store=store)


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_words_that_are_searched_meanwhile_are_ranked_as_all_at_once(mode: str) -> None:
    here, away = Store(is_here=True), Store(is_here=False)
    assert run_legs(search_with(here, mode)).rankings == run_legs(search_with(away, mode)).rankings
    kinds = {"hybrid": ["vector", "text", "code"], "vector": ["vector"], "keyword": ["text", "code"]}[mode]
    # a request to a provider of vectors costs money
    assert away.asked == [kinds]
    assert here.asked == ([["text", "code"], ["vector"]] if mode == "hybrid" else [kinds])


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize(("model", "is_fitted"), [(LOCAL_MODEL, True), (e5.MODEL, False), ("openai/x", False)])
def test_a_confidence_was_fitted_to_the_cosines_of_one_model(model: str, is_fitted: bool) -> None:
    index: Any = Mock()
    index.settings.embedder.model = model
    asked = replace(search_with(Store(is_here=True)), index=index)
    assert [each.is_fitted for each in run_legs(asked).rankings if each.kind == "vector"] == [is_fitted]


@pytest.mark.usefixtures("postgres")
def test_words_are_searched_while_the_query_is_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(is_here=True)

    def result() -> Any:
        assert store.asked == [["text", "code"]]
        raise EmbeddingUnavailable("The provider is away.")

    monkeypatch.setattr(legs, "begin_queries", lambda _r, _i, _texts: nullcontext(result))
    assert kinds_and_notes(run_legs(search_with(store))) == (["text", "code"], ["keywords_only"])
    assert store.asked == [["text", "code"]]


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("is_here", [True, False])
def test_a_store_that_must_answer_fails_the_search(is_here: bool) -> None:
    with pytest.raises(StoreUnavailable):
        run_legs(search_with(Store(is_here=is_here, fails=StoreUnavailable("The disk is gone."))))


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("in_store", [True, False])
def test_of_a_quoted_phrase_only_chunks_that_hold_it_are_found(monkeypatch: pytest.MonkeyPatch, in_store: bool) -> None:
    limits: list[int] = []

    def found(_pool: Any, asked: dict[str, Any], *_: Any, **__: Any) -> list[tuple[str, float]]:
        limits.append(asked["limit"])
        return [("other", 2.0), ("b", 1.0)]

    monkeypatch.setattr(keywords, "search", found)
    monkeypatch.setattr(found_chunks, "with_phrase", lambda _pool, _index_id, _ids, phrase: {"b"} & {phrase[-1]})
    request = Query(query='say "alpha b"', mode="keyword")
    store = Store(is_here=False) if in_store else Mock(has_keywords=False)
    *_, of_phrase = run_legs(replace(search_with(store), request=request)).rankings
    assert (of_phrase.kind, of_phrase.ids) == ("text", ["b"])
    assert in_store or limits == [10, 10, PHRASE_DEPTH]


@pytest.mark.parametrize(
    ("model", "legibility"), [(minilm.MODEL, MIN_LEGIBILITY), ("openai/text-embedding-3-small", 1.0)]
)
def test_the_vector_leg_says_how_well_its_model_reads_the_query(
    postgres: Keywords, model: str, legibility: float
) -> None:
    asked = search()
    asked.index.settings.embedder.model = model  # type: ignore[misc]
    request = asked.request.model_copy(update={"queries": ["パンサーズの守備は何点を許しましたか"]})
    found = run_legs(replace(asked, request=request)).rankings
    assert [(each.kind, each.legibility) for each in found if each.kind == "vector"] == [("vector", legibility)]
    assert {each.legibility for each in found if each.kind != "vector"} == {1.0}
