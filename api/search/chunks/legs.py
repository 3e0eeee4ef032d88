"""Embeds the queries of a search, and runs its legs: by vector and by keywords. A store that has both gets one call."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import structlog
from psycopg import OperationalError

from api.http.shares import KEYWORD_THREADS, elsewhere
from api.search.query.index_search import IndexSearch, SearchReport, note
from api.search.query.query_vectors import begin_queries
from api.search.rank.boosts import phrases
from api.search.rank.confidence import FITTED_MODELS
from api.search.rank.definition_query import names_in_query
from api.search.rank.fusion import by_score, shared_ranks
from api.search.rank.sureness import COMPARED_RANK
from schemas.errors import EmbeddingError, FoldexError, StoreError, StoreUnavailable
from schemas.queries.search import Filters
from schemas.wording import amount
from worker.embed.models import legibility, unrelated_cosine
from worker.state.index import drift
from worker.state.index.tools import Index
from worker.state.search import found_chunks, keywords, languages, symbols
from worker.tokens.keywords import IN_ENGLISH, phrase_tokens
from worker.vectors import Leg, Ranked, RankedRow, Vector, VectorStore

Kind = Literal["vector", "text", "code"]

#: Seconds that a search waits for keywords in Postgres after all else has answered.
KEYWORD_SECONDS = 10.0
#: Number of nearest vectors whose values count. It is fixed, so that the length of an answer does not change its order.
NEAREST = 100
#: Rows with every word of a quoted phrase that are checked for the phrase itself.
PHRASE_DEPTH = 300
#: Minimum difference of distances that counts fully. If the nearest vectors are about as near as the others, the leg
#: guesses, and must not outweigh words.
MIN_SPAN = 0.2
#: Least share of its weight that a leg keeps which cannot read a query: where no word is found, it alone has results.
MIN_LEGIBILITY = 0.05
log = structlog.get_logger()

#: A leg of the store, with its query and kind.
_StoreLeg = tuple[str, Kind, Leg]
#: A keyword leg that runs in Postgres, with its query and field.
KeywordLeg = tuple[str, keywords.Field, "Future[Ranked]"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The results of one leg for one query, best first. `share` is that of the chunks which it could find.

    `legibility` is how well the leg reads the query, from `MIN_LEGIBILITY` to 1. `unrelated` is the cosine of texts
    which share nothing. The leg `is_fitted` if a confidence was fitted to its cosines.
    """

    query: str
    kind: Kind
    results: Sequence[RankedRow]
    share: float = 1.0
    legibility: float = 1.0
    unrelated: float = 0.0
    is_fitted: bool = True

    @property
    def ids(self) -> list[str]:
        """The ids, best first."""
        return Ranked.of(self.results).ids

    @property
    def ranks(self) -> list[int]:
        """The ranks of the results. Equal results share one."""
        return shared_ranks(Ranked.of(self.results).values)

    @property
    def first_scores(self) -> list[float]:
        """The scores of the first results: cosines from `unrelated` on, or scores of keywords."""
        first = Ranked.of(self.results[:COMPARED_RANK]).values
        return [likeness(distance, self.unrelated) for distance in first] if self.kind == "vector" else first

    @property
    def values(self) -> list[float]:
        """Normalized values of the results, from 1 for the best to 0 for no relevance."""
        is_vector = self.kind == "vector"
        values = Ranked.of(self.results).values
        # cosines have no natural zero: the distance of unrelated texts depends on the model
        zero = values[:NEAREST][-1] if is_vector and values else 0.0
        span = values[0] - zero if values else 0.0
        if is_vector:
            span = min(span, -MIN_SPAN * (1 - self.unrelated))
        if span == 0:
            return [1.0] * len(values)
        shares = [max(0.0, (value - zero) / span) for value in values]
        # squared, so that a chunk with far more of the query's words than the others stands out
        return shares if is_vector else [share * share for share in shares]


def likeness(distance: float, unrelated: float) -> float:
    """The cosine at a distance, from `unrelated` on: 0 for texts which have nothing in common, and 1 for the same."""
    return 1 - distance / (1 - unrelated)


@dataclass(frozen=True, slots=True)
class LegResults:
    """A ranking for each query and leg that answered. `vectors_missing`: the namespace lost all its vectors."""

    rankings: Sequence[Ranking]
    report: SearchReport = field(default_factory=SearchReport)
    vectors_missing: bool = False

    def __add__(self, later: LegResults) -> LegResults:
        """The results of both."""
        return LegResults(
            [*self.rankings, *later.rankings],
            self.report + later.report,
            self.vectors_missing or later.vectors_missing,
        )


def run_legs(search: IndexSearch) -> LegResults:
    """Embed the queries, and run the legs that the mode needs. Keywords run during the embedding where they can.

    If one kind of leg fails and another answers, a note says so. Raises `EmbeddingError`, `StoreError`,
    `OperationalError` and `CallerLeft`.
    """
    with _start_keywords(search) as in_progress, _begin_vectors(search) as wait_for_vectors:
        words = _search_words_meanwhile(search) if search.uses_vectors else None
        vectors, embed_report = wait_for_vectors()
        search.disconnect.check()
        is_alone = not in_progress or search.words_wait or search.request.mode == "vector"
        in_store = _search_store(search, vectors, words, must_answer=is_alone)
        found = LegResults([], embed_report) + in_store
        if in_progress:
            in_postgres = _wait_for_keywords(search, in_progress, must_answer=not in_store.rankings)
            found = _with_waiting(found, in_postgres) if search.words_wait else found + in_postgres
    return found


def _with_waiting(in_store: LegResults, waiting: LegResults) -> LegResults:
    """The results of both, where those of the same words are one ranking, by score.

    Both have the rankings of a query in the same order: those of the fields, then those of its phrases.
    """
    left: dict[tuple[str, Kind], deque[Ranking]] = {}
    for each in waiting.rankings:
        left.setdefault((each.query, each.kind), deque()).append(each)
    rankings = [
        _merged(each, of_words.popleft()) if (of_words := left.get((each.query, each.kind))) else each
        for each in in_store.rankings
    ]
    rest = [each for of_words in left.values() for each in of_words]
    return LegResults([*rankings, *rest], in_store.report + waiting.report, in_store.vectors_missing)


def _merged(ranking: Ranking, other: Ranking) -> Ranking:
    """Both, best first. A chunk is in both if its vector was written in between."""
    scores = dict(other.results) | dict(ranking.results)
    best = by_score(scores)
    return replace(ranking, results=Ranked(list(best), list(best.values())))


def embed(search: IndexSearch) -> tuple[list[Vector], SearchReport]:
    """The vectors of the queries; none if the mode is `keyword`, or they cannot be embedded and it also uses keywords.

    Raises `EmbeddingError`.
    """
    with _begin_vectors(search) as wait_for_vectors:
        return wait_for_vectors()


@contextmanager
def _begin_vectors(search: IndexSearch) -> Iterator[Callable[[], tuple[list[Vector], SearchReport]]]:
    """Begin what `embed` does. Yields what waits for its result."""
    if not search.uses_vectors:
        yield lambda: ([], SearchReport())
        return
    started = time.perf_counter()
    with begin_queries(search.resources, search.index, search.request.texts) as result:
        yield lambda: _wait_for_embedding(search, result, started)


def _wait_for_embedding(
    search: IndexSearch, result: Callable[[], list[Vector]], started: float
) -> tuple[list[Vector], SearchReport]:
    try:
        vectors = result()
    except EmbeddingError as error:
        if search.request.mode == "vector":
            raise
        detail = f"The query could not be embedded, so only keywords were searched: {error.message}"
        return [], search.step("embed", started) + note("keywords_only", detail)
    return vectors, search.step("embed", started, len(vectors))


@contextmanager
def _start_keywords(search: IndexSearch) -> Iterator[Sequence[KeywordLeg]]:
    """Start the keyword legs in Postgres; none if the store has all words. At the end, cancels those not begun."""
    in_postgres = search.uses_keywords and (not search.store.has_keywords or search.words_wait)
    texts, owner = search.request.texts if in_postgres else [], search.index.project_id
    legs = [
        (text, field, KEYWORD_THREADS.submit(owner, partial(_search_postgres, search, text, field)))
        for text in texts
        for field in keywords.FIELDS
    ]
    legs += [
        (text, "text", KEYWORD_THREADS.submit(owner, partial(_search_phrase, search, phrase)))
        for text in texts
        for phrase in phrases(text)
    ]
    try:
        yield legs
    finally:
        for _, _, future in legs:
            future.cancel()


def _search_postgres(search: IndexSearch, text: str, field: keywords.Field) -> Ranked:
    search.disconnect.check()
    values = {**search.filters.values, "index_id": search.index.id, "limit": search.depth, "query": text}
    pool = search.resources.pool
    found = keywords.search(pool, values, field, languages.of_index(pool, search.index.id))
    return Ranked([id_ for id_, _ in found], [value for _, value in found])


def _search_phrase(search: IndexSearch, phrase: str) -> Ranked:
    search.disconnect.check()
    field, tokens = phrase_tokens(phrase)
    values = {**search.filters.values, "index_id": search.index.id, "limit": PHRASE_DEPTH, "query": phrase}
    found = keywords.search(search.resources.pool, values, field, IN_ENGLISH, phrase=True) if tokens else []
    return _with_phrase(search, phrase, Ranked([id_ for id_, _ in found], [value for _, value in found]))


def _with_phrase(search: IndexSearch, phrase: str, found: Ranked) -> Ranked:
    """The chunks, of those that have every word of a phrase, in which the words follow each other."""
    holding = found_chunks.with_phrase(search.resources.pool, search.index.id, found.ids, phrase)
    return Ranked.of([row for row in found if row.id in holding])


@dataclass(frozen=True, slots=True)
class StoreWords:
    """Results of the store's keyword legs, found before its vector legs, and the seconds that they took."""

    legs: Sequence[_StoreLeg]
    results: Sequence[Ranked]
    seconds: float


def _search_words_meanwhile(search: IndexSearch) -> StoreWords | None:
    """Search words while the queries are embedded, in a store where a call of its own costs nothing.

    Raises `StoreError`: such a store must answer.
    """
    if not (search.uses_keywords and search.store.has_keywords and search.store.is_here):
        return None
    started, legs = time.perf_counter(), _keyword_legs(search)
    results = search.store.search(search.index.namespace, [leg for _, _, leg in legs])
    return StoreWords(legs, results, time.perf_counter() - started)


def _search_store(
    search: IndexSearch, vectors: Sequence[Vector], words: StoreWords | None = None, *, must_answer: bool
) -> LegResults:
    """Run the legs in the store: a vector leg for each of `vectors`, and keyword legs if it has the keywords.

    `words` are keyword legs that ran before. If the store fails, raises `StoreError` if it `must_answer`, else a note
    says so.
    """
    legs = _vector_legs(search, vectors)
    if words is None and search.uses_keywords and search.store.has_keywords:
        legs += _keyword_legs(search)
    if not legs and words is None:
        return LegResults([])
    results = _run_in_store(search, legs, words, must_answer=must_answer)
    # keywords alone may find nothing in a namespace that is complete
    decisive = [ranking for ranking in results.rankings if ranking.kind == "vector"] or results.rankings
    if not decisive or any(ranking.results for ranking in decisive):
        return results
    return results + missing_vectors(search)


def _vector_legs(search: IndexSearch, vectors: Sequence[Vector]) -> list[_StoreLeg]:
    if not vectors:
        return []
    conditions = search.filters.conditions
    return [
        (text, "vector", Leg(search.depth, vector=vector, conditions=conditions))
        for text, vector in zip(search.request.texts, vectors, strict=True)
    ]


def _keyword_legs(search: IndexSearch) -> list[_StoreLeg]:
    spoken = languages.of_index(search.resources.pool, search.index.id)
    leg = Leg(search.depth, conditions=search.filters.conditions, languages=spoken)
    legs: list[_StoreLeg] = []
    for text in search.request.texts:
        legs += [(text, field, replace(leg, keywords=text, field=field)) for field in keywords.FIELDS]
        for phrase in phrases(text):
            of_phrase = replace(leg, limit=PHRASE_DEPTH, keywords=phrase, phrase=True)
            legs.append((text, "text", replace(of_phrase, field=phrase_tokens(phrase)[0])))
    return legs


def _run_in_store(
    search: IndexSearch, legs: Sequence[_StoreLeg], words: StoreWords | None, *, must_answer: bool
) -> LegResults:
    started = time.perf_counter()
    try:
        results = _ask_store(search, [leg for _, _, leg in legs]) if legs else []
    except StoreError as error:  # also if the store rejects its key, because Postgres needs none
        if must_answer:
            raise
        log.warning("the vector store failed; searching keywords only", code=error.code, error=error.message)
        detail = f"The vector store does not answer, so only keywords were searched: {error.message}"
        return LegResults([], search.step("store", started) + note("keywords_only", detail))
    if words is not None:
        legs, results = [*legs, *words.legs], [*results, *words.results]
        started -= words.seconds
    rankings: list[Ranking] = []
    of_phrases: list[Ranking] = []
    for (text, kind, leg), result in zip(legs, results, strict=True):
        if leg.phrase:
            of_phrases.append(Ranking(text, kind, _with_phrase(search, leg.keywords or "", Ranked.of(result))))
        else:
            rankings.append(Ranking(text, kind, Ranked.of(result)))
            if kind == "vector":
                rankings[-1] = _with_model(search, rankings[-1])
    return LegResults(
        [*rankings, *of_phrases], search.step("store", started, sum(map(len, results)), amount(len(legs), "leg"))
    )


def _with_model(search: IndexSearch, ranking: Ranking) -> Ranking:
    """A ranking by vectors, with what is known of the model and the index."""
    model = search.index.settings.embedder.model
    read = max(MIN_LEGIBILITY, legibility(model, ranking.query))
    return replace(
        ranking,
        share=search.vector_share,
        legibility=read,
        unrelated=unrelated_cosine(model),
        is_fitted=model in FITTED_MODELS,
    )


def _ask_store(search: IndexSearch, legs: Sequence[Leg]) -> Sequence[Ranked]:
    with nullcontext() if search.store.is_here else elsewhere():
        return search.store.search(search.index.namespace, legs)


def _wait_for_keywords(search: IndexSearch, legs: Sequence[KeywordLeg], *, must_answer: bool) -> LegResults:
    """Wait for the keyword legs in Postgres.

    If they fail or are slow, raises `StoreError` or `OperationalError` if they `must_answer`, else a note says so.
    """
    started = time.perf_counter()
    try:
        rankings = _wait_for_legs(legs)
    except (StoreError, OperationalError) as error:  # the second one also if the pool has no free connection
        if must_answer:
            raise
        message = error.message if isinstance(error, FoldexError) else "Postgres does not answer; try again soon."
        log.warning("keyword search failed", error=str(error))
        detail = f"Keywords could not be searched: {message}"
        return LegResults([], search.step("keywords", started) + note("meaning_only", detail))
    return LegResults(rankings, search.step("keywords", started, sum(len(ranking.results) for ranking in rankings)))


def _wait_for_legs(legs: Sequence[KeywordLeg]) -> list[Ranking]:
    deadline = time.monotonic() + KEYWORD_SECONDS
    try:
        return [
            Ranking(text, field, future.result(max(0.0, deadline - time.monotonic()))) for text, field, future in legs
        ]
    except TimeoutError as error:
        raise StoreUnavailable(
            f"Postgres did not finish the keyword search within {KEYWORD_SECONDS:g} s; try again, or use fewer words."
        ) from error


def missing_vectors(search: IndexSearch) -> LegResults:
    """If the namespace has lost all its vectors, request a comparison and add a note."""
    pool, index = search.resources.pool, search.index
    if search.only is not None and not search.only:
        # like an empty folder
        return LegResults([])
    if not drift.any_embedded(pool, index.id) or _has_any_vector(search.store, index):
        return LegResults([])
    if drift.request_comparison(pool, index.id):
        log.warning(
            "a namespace that should hold vectors is empty; comparing it with Postgres", namespace=index.namespace
        )
    detail = (
        "The vector store has lost the vectors of this index; they are being restored, so try again soon. "
        "Until then, a query without filters that finds nothing else returns lines with its words."
    )
    return LegResults([], note("vectors_missing", detail), vectors_missing=True)


def _has_any_vector(store: VectorStore, index: Index) -> bool:
    try:
        return bool(store.ids(index.namespace, None, 1))
    except StoreError:  # it answered just now, so do not assume that it is empty
        return True


def defining_chunks(search: IndexSearch) -> Collection[str]:
    """Chunks that pass the filters and hold the first line of a definition that a query names."""
    names = list(dict.fromkeys(name for text in search.request.texts for name in names_in_query(text)))
    if not names:
        return ()
    pool = search.resources.pool
    definitions = symbols.find_named(pool, search.index.id, names, search.only)
    defining = found_chunks.containing_lines(pool, [(file_id, line) for file_id, line, *_ in definitions])
    if search.request.filters != Filters():
        defining = found_chunks.passing(pool, defining, search.filters.values)
    return set(defining)
