"""Runs the legs of a search, by vector and by keywords for each query, in one store call if it holds both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import structlog
from psycopg import OperationalError

from api.http.disconnect import Left
from api.search.query.filters import Narrowed
from api.search.query.query_vectors import embed_queries
from api.search.query.trace import Course
from schemas.errors import EmbeddingError, FoldexError, StoreError, StoreUnavailable
from schemas.search import Asked
from worker.resources import Resources
from worker.state.index import drift
from worker.state.index.tools import Index
from worker.state.search import keywords
from worker.vectors import Found, Leg, VectorStore

Field = Literal["text", "code"]
Kind = Literal["vector", "text", "code"]
FIELDS: tuple[Field, ...] = ("text", "code")

#: Seconds that a search waits for keywords in Postgres after all else has answered.
KEYWORD_SECONDS = 10.0
#: Vectors whose values count. Independent of the depth, so that an answer's length does not change its order.
NEAREST = 100
#: The code of the note on a lost namespace.
VECTORS_MISSING = "vectors_missing"
#: Runs keyword legs in Postgres, parallel to embedding and the store's legs. Has fewer threads than the pool has
#: connections, which leaves some to other requests.
_beside = ThreadPoolExecutor(16, thread_name_prefix="keywords")

log = structlog.get_logger()

_Leg = tuple[str, Kind, Leg]
_Begun = tuple[str, Field, "Future[list[Found]]"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The results of one leg for one query, best first."""

    query: str
    kind: Kind
    found: Sequence[Found]

    @property
    def ids(self) -> list[str]:
        """The ids, best first."""
        return [found.id for found in self.found]

    @property
    def values(self) -> list[float]:
        """Normalized values of the results, from 1 for the best to 0 for no relevance."""
        is_vector = self.kind == "vector"
        values = [each.value for each in self.found]
        # cosines have no natural zero: the distance of unrelated texts depends on the model
        zero = values[:NEAREST][-1] if is_vector and values else 0.0
        span = values[0] - zero if values else 0.0
        if span == 0:
            return [1.0] * len(values)
        shares = [max(0.0, (value - zero) / span) for value in values]
        # squared, so that a chunk with far more of the query's words than the others stands out
        return shares if is_vector else [share * share for share in shares]


@dataclass(frozen=True, slots=True)
class Search:
    """The state of one search. Each leg returns up to `depth` rows."""

    resources: Resources
    index: Index
    asked: Asked
    narrowed: Narrowed
    depth: int
    #: Run keyword legs in every mode.
    keywords_too: bool
    course: Course
    left: Left


def rankings(search: Search) -> list[Ranking]:
    """Run the legs that the mode needs; returns a ranking for each query and leg.

    If one kind of leg fails and another answers, a note says so. Raises `EmbeddingError`, `StoreError`,
    `OperationalError` and `CallerLeft`.
    """
    store = search.resources.store(search.index.vector_store, search.index.keyword_index)
    beside = _begun(search) if _wants_keywords(search) and not store.has_keywords else []
    try:
        found = _in_store(search, store, alone=not beside or search.asked.mode == "vector")
        return found + (_ended(search, beside, alone=not found) if beside else [])
    finally:
        for _, _, future in beside:
            future.cancel()  # has no effect on legs that have ended


def _wants_keywords(search: Search) -> bool:
    return search.asked.mode != "vector" or search.keywords_too


def _in_store(search: Search, store: VectorStore, *, alone: bool) -> list[Ranking]:
    legs = _vector_legs(search) if search.asked.mode != "keyword" else []
    if _wants_keywords(search) and store.has_keywords:
        legs += _keyword_legs(search)
    search.left.check()
    found = _found(search, store, legs, alone=alone) if legs else []
    shown = [ranking for ranking in found if ranking.kind == "vector"] or found
    if shown and not any(ranking.found for ranking in shown):
        _look_for_vectors(search, store)
    return found


def _vector_legs(search: Search) -> list[_Leg]:
    texts = search.asked.texts
    try:
        with search.course.step("embed") as step:
            vectors = embed_queries(search.resources, search.index, texts)
            step.found = len(vectors)
    except EmbeddingError as error:
        if search.asked.mode == "vector":
            raise
        search.course.note(
            "keywords_only", f"The query could not be embedded, so keywords alone answer: {error.message}"
        )
        return []
    conditions = search.narrowed.conditions
    return [
        (text, "vector", Leg(search.depth, vector=vector, conditions=conditions))
        for text, vector in zip(texts, vectors, strict=True)
    ]


def _keyword_legs(search: Search) -> list[_Leg]:
    conditions = search.narrowed.conditions
    return [
        (text, field, Leg(search.depth, keywords=text, field=field, conditions=conditions))
        for text in search.asked.texts
        for field in FIELDS
    ]


def _found(search: Search, store: VectorStore, legs: Sequence[_Leg], *, alone: bool) -> list[Ranking]:
    try:
        with search.course.step("store") as step:
            found = store.search(search.index.namespace, [leg for _, _, leg in legs])
            step.found, step.detail = sum(map(len, found)), f"{len(legs)} legs"
    except StoreError as error:  # also if the store rejects its key, since Postgres does not need it
        if alone:
            raise
        log.warning("the vector store failed; keywords alone answer", code=error.code, error=error.message)
        search.course.note("keywords_only", f"The vector store does not answer, so keywords alone do: {error.message}")
        return []
    return [Ranking(text, kind, ranked) for (text, kind, _), ranked in zip(legs, found, strict=True)]


def _begun(search: Search) -> list[_Begun]:
    return [
        (text, field, _beside.submit(_in_postgres, search, text, field))
        for text in search.asked.texts
        for field in FIELDS
    ]


def _in_postgres(search: Search, text: str, field: Field) -> list[Found]:
    search.left.check()
    values = {**search.narrowed.values, "index_id": search.index.id, "limit": search.depth, "query": text}
    return [Found(id_, value) for id_, value in keywords.search(search.resources.pool, values, field)]


def _ended(search: Search, begun: Sequence[_Begun], *, alone: bool) -> list[Ranking]:
    try:
        with search.course.step("keywords") as step:
            found = _in_time(begun)
            step.found = sum(len(ranking.found) for ranking in found)
    except (StoreError, OperationalError) as error:  # the latter also if the pool has no free connection
        if alone:
            raise
        said = error.message if isinstance(error, FoldexError) else "Postgres does not answer; try again soon."
        log.warning("keywords could not be looked for", error=str(error))
        search.course.note("meaning_only", f"Keywords could not be looked for: {said}")
        return []
    return found


def _in_time(begun: Sequence[_Begun]) -> list[Ranking]:
    until = time.monotonic() + KEYWORD_SECONDS
    try:
        return [
            Ranking(text, field, future.result(max(0.0, until - time.monotonic()))) for text, field, future in begun
        ]
    except TimeoutError as error:
        raise StoreUnavailable(
            f"Postgres did not find the keywords within {KEYWORD_SECONDS:g} s; try again, or ask for fewer words."
        ) from error


def _look_for_vectors(search: Search, store: VectorStore) -> None:
    """If the namespace has lost all its vectors, request a comparison and add a note."""
    pool, index = search.resources.pool, search.index
    if not drift.any_embedded(pool, index.id) or _holds_any(store, index):
        return
    if drift.ask(pool, index.id):
        log.warning("a namespace that should hold vectors shows none; it is compared", namespace=index.namespace)
    search.course.note(
        VECTORS_MISSING,
        "The vector store holds none of this index's vectors; they are being put back, so try again soon. Until then "
        "lines with words of the query stand in where nothing else is found and no filter is set.",
    )


def _holds_any(store: VectorStore, index: Index) -> bool:
    try:
        return bool(store.ids(index.namespace, None, 1))
    except StoreError:  # it answered just now, so do not assume that it is empty
        return True
