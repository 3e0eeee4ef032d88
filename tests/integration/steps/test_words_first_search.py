"""Chunks without a vector are found by their words, and a search says how much of the folder it finds by meaning."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from api.http.disconnect import Disconnect
from api.indexers.chunks import shown_status
from api.search.chunks import legs
from api.search.grep.grep import grep
from api.search.pipeline import answer_query
from schemas.queries.grep import Grep
from schemas.queries.search import Answer, Query
from tests.integration.steps.site import Site
from tests.integration.steps.without_vectors import take_vectors
from worker.resources import Resources
from worker.state.index import file_lookup, statuses

TEXTS = {
    "ferry.md": "# Ferries\n\nThe ferry crosses the sound at noon.\n",
    "garden.md": "# Gardens\n\nTomatoes ripen in August.\n",
    "lease.py": "def renew_lease(owner):\n    return owner\n\n\ndef drop_lease(owner):\n    del owner\n",
}


@pytest.fixture
def ready(resources: Resources) -> Site:
    """A folder that is indexed."""
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    made = Site(resources, folder)
    made.list_folder()
    made.finish_all()
    return made


@pytest.fixture
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail whoever asks for the vector of a query."""
    monkeypatch.setattr(legs, "begin_queries", lambda *_: pytest.fail("the query was embedded"))


def answered(site: Site, query: str, **asked: Any) -> Answer:
    request = Query.model_validate({"query": query, **asked})
    return answer_query(site.resources, site.tool, site.index, request, disconnect=Disconnect())


def paths(answer: Answer) -> list[str]:
    return list(dict.fromkeys(hit.file_path for hit in answer.results))


def codes(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes if note.code != "nothing_fits_well"]


@pytest.mark.usefixtures("no_provider")
@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_an_index_without_vectors_answers_by_words_and_asks_no_provider(ready: Site, mode: str) -> None:
    take_vectors(ready)
    answer = answered(ready, "when does the ferry cross", mode=mode)
    assert paths(answer)[0] == "ferry.md"
    assert answer.mode == mode
    assert codes(answer) == ([] if mode == "keyword" else ["meaning_follows"])
    assert (answer.coverage.indexed_files, answer.coverage.vector_share) == (len(TEXTS), 0.0)
    assert all(hit.distance is None and not hit.stale for hit in answer.results)


@pytest.mark.usefixtures("no_provider")
def test_symbols_filters_neighbours_and_greps_need_no_vectors(ready: Site) -> None:
    take_vectors(ready)
    defined = answered(ready, "renew_lease", before=1, after=1)
    assert defined.results[0].symbol == "renew_lease"
    assert [piece.chunk_text for piece in defined.results[0].after or []] == ["def drop_lease(owner):\n    del owner"]
    assert paths(answered(ready, "lease", filters={"symbols": ["drop_lease"]})) == ["lease.py"]
    assert paths(answered(ready, "august", filters={"path": "*.md"})) == ["garden.md"]
    assert paths(answered(ready, '"ripen in august"')) == ["garden.md"]
    found = grep(ready.resources, ready.index, Grep(pattern="crosses"))
    assert [(hit.file_path, found.coverage.indexed_files) for hit in found.hits] == [("ferry.md", len(TEXTS))]


def test_meaning_counts_by_the_share_of_chunks_that_have_it(ready: Site) -> None:
    query = "SELECT id FROM chunk WHERE index_id = %s AND chunk_text LIKE '%%ferry%%' AND live"
    ((gone,),) = ready.do(query, ready.index.id)
    chunks = len(ready.chunks(live=True))
    take_vectors(ready, [gone])
    answer = answered(ready, "the ferry crosses the sound")
    assert paths(answer)[0] == "ferry.md"
    assert codes(answer) == ["meaning_follows"]
    assert f"{100 * (chunks - 1) // chunks} %" in answer.notes[-1].detail
    # the run has ended
    assert answer.notes[-1].detail.endswith("until a reindex or retry embeds them too.")
    assert answer.coverage.vector_share == pytest.approx((chunks - 1) / chunks, abs=1e-4)
    by_meaning = answered(ready, "boats over water", mode="vector")
    assert "ferry.md" not in paths(by_meaning)
    assert paths(by_meaning)
    assert codes(by_meaning) == ["meaning_follows"]


def test_a_complete_index_says_nothing_of_meaning(ready: Site) -> None:
    answer = answered(ready, "the ferry crosses the sound")
    assert (codes(answer), answer.coverage.vector_share) == ([], 1.0)


def test_status_and_files_say_what_is_found_by_words_only(ready: Site) -> None:
    complete = statuses.newest_of_tool(ready.pool, ready.tool)
    assert complete is not None
    shown = shown_status(complete)
    assert (shown.vector_chunks, shown.searchable_files, shown.warning) == (shown.total_chunks, len(TEXTS), None)
    assert shown.searchable_at is not None
    assert shown.words_eta_seconds is None
    assert all(file.embedded for file in files(ready))
    take_vectors(ready)
    without = statuses.newest_of_tool(ready.pool, ready.tool)
    assert without is not None
    shown = shown_status(without)
    assert (shown.vector_chunks, shown.searchable_files) == (0, len(TEXTS))
    assert f"{shown.total_chunks} chunks are found by their words only" in str(shown.warning)
    assert [file.embedded for file in files(ready)] == [False] * len(TEXTS)


def files(site: Site) -> list[Any]:
    return file_lookup.page(site.pool, site.index.id, file_lookup.Wanted(), limit=10)
