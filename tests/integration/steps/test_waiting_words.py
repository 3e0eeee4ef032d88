"""Words of chunks that are sent to a store elsewhere with their vectors are found in Postgres until then."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from api.http.disconnect import Disconnect
from api.search.chunks import legs
from api.search.pipeline import answer_query
from api.search.query import coverage
from schemas.queries.search import Answer, Query
from tests.integration.shelf import Numbers, Shelf, both_stores
from worker.resources import Resources
from worker.state.search import keywords
from worker.vectors import Vector

TEXTS = {
    "a": ("a.md", "The ferry crosses the sound at noon."),
    "b": ("b.md", "A ferry is a boat, and the ferry waits."),
    "c": ("c.md", "Tomatoes ripen in late August here."),
    "d": ("d.md", "Nothing is said of boats in this one."),
}


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    with both_stores(tmp_path_factory.mktemp("waiting") / "home", database_url) as made:
        yield made


@pytest.fixture
def shelf(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Files whose words and vectors are in Turbopuffer."""
    made = Shelf(resources, "turbopuffer", "store", dict(TEXTS))
    made.create()
    made.index_all()
    profile = made.index.settings.embedder

    @contextmanager
    def begin(_resources: Resources, _index: Any, texts: list[str]) -> Iterator[Any]:
        vectors: list[Vector] = list(Numbers(profile).embed(texts))
        yield lambda: vectors

    monkeypatch.setattr(legs, "begin_queries", begin)
    return made


def wait(shelf: Shelf, *paths: str) -> None:
    """Leave the chunks of these files with words in Postgres only."""
    chunks = shelf.do(
        "SELECT c.id, f.path, c.context, c.chunk_text FROM chunk c JOIN search_index_file f ON f.id = c.file_id"
        " WHERE c.index_id = %s AND c.live AND f.path = ANY (%s)",
        *(shelf.index.id, list(paths)),
    )
    ids: Collection[UUID] = [id_ for id_, *_ in chunks]
    for id_, path, context, text in chunks:
        words = keywords.vectors(path, context, text, "en")
        shelf.do(
            "UPDATE chunk SET lost = true, keywords = %s::tsvector, code = %s::tsvector WHERE id = %s",
            *(words.text, words.code, id_),
        )
    shelf.store.write(shelf.index.namespace, 8, deletes=list(ids))
    shelf.do(
        "UPDATE search_index_file SET lost = true, awaits_vectors = true, vectors_due = live_chunks"
        " WHERE index_id = %s AND path = ANY (%s)",
        *(shelf.index.id, list(paths)),
    )
    due = len(ids)
    shelf.do(
        "UPDATE search_index_task SET vectors_due = %s, vector_chunks = total_chunks - %s WHERE id = %s",
        *(due, due, shelf.task),
    )


def answered(shelf: Shelf, query: str, mode: str) -> Answer:
    coverage._counts(shelf.pool).forget()
    request = Query.model_validate({"query": query, "mode": mode})
    return answer_query(shelf.resources, shelf.tool, shelf.index, request, disconnect=Disconnect())


def paths(answer: Answer) -> list[str]:
    return [hit.file_path for hit in answer.results]


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_words_of_a_namespace_that_does_not_exist_yet_are_found(shelf: Shelf, mode: str) -> None:
    wait(shelf, *(path for path, _ in TEXTS.values()))
    shelf.store.drop(shelf.index.namespace)
    assert sorted(paths(answered(shelf, "ferry", mode))) == ["a.md", "b.md"]
    assert paths(answered(shelf, '"ripen in late"', mode)) == ["c.md"]
    nothing = answered(shelf, "zeppelin", mode)
    assert paths(nothing) == []
    assert "vectors_missing" not in [note.code for note in nothing.notes]


def test_words_here_and_there_are_one_ranking(shelf: Shelf) -> None:
    complete = paths(answered(shelf, "ferry noon", "keyword"))
    assert complete == ["a.md", "b.md"]
    for waiting in ("a.md", "b.md"):
        wait(shelf, waiting)
        assert sorted(paths(answered(shelf, "ferry noon", "keyword"))) == complete
        assert paths(answered(shelf, '"ferry crosses the sound"', "keyword"))[0] == "a.md"
    assert {"a.md", "b.md"} <= {*paths(answered(shelf, "ferry", "hybrid"))}


def test_vectors_that_were_lost_are_not_taken_for_waiting_words(shelf: Shelf) -> None:
    shelf.store.drop(shelf.index.namespace)
    shelf.do("UPDATE chunk SET lost = true WHERE index_id = %s", shelf.index.id)
    shelf.do("UPDATE search_index_file SET lost = true, vectors_due = live_chunks WHERE index_id = %s", shelf.index.id)
    shelf.do("UPDATE search_index_task SET vectors_due = 4, vector_chunks = 0 WHERE id = %s", shelf.task)
    assert "vectors_missing" in [note.code for note in answered(shelf, "ferry", "keyword").notes]
