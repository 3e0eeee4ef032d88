"""A change of access lists takes effect without reading or embedding anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_acl_of_searches import ANN, HIDDEN, SHOWN, Project, project_in
from tests.service import TOOLS, NewService, checked, eventually
from worker.state.pool import open_pool

BOB = "user:bob"
#: So that a change of a node's text starts a run.
FOLLOWING = {"auto_reindex": True}


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def project(new_service: NewService, provider: EmbeddingsFake) -> Iterator[Project]:
    with new_service(**provider.env, AUTH="on") as running:
        made = project_in(running)
        for path, text in {**SHOWN, **HIDDEN}.items():
            made.make(path, text)
        made.index(**FOLLOWING)
        yield made


def listed(project: Project, who: str) -> set[str]:
    """The paths that a caller sees, in the list of files and by words."""
    page = project.get("/files", who, limit=200)
    assert page["next_cursor"] is None
    paths = {file["file_path"] for file in page["items"]}
    hits = project.post("/query", {"query": "apples", "mode": "keyword", "top_k": 50}, who)["results"]
    assert {hit["file_path"] for hit in hits} <= paths
    return paths


def rules(project: Project, *given: dict[str, Any]) -> None:
    changed = {"config": {**FOLLOWING, "metadata": {"team": "string"}, "rules": list(given)}}
    checked(project.call("PATCH", f"{TOOLS}/{project.tool}", None, json=changed), 202)


def work_done(project: Project, provider: EmbeddingsFake) -> tuple[object, ...]:
    """The requests to the provider, and the runs, reads of files and vectors of the index."""
    query = """
        SELECT count(*), (SELECT count(*) FROM search_index_change WHERE due_at IS NOT NULL),
               (SELECT string_agg(concat_ws(' ', id, generation, attempts, live_stamp), ',' ORDER BY id)
                FROM search_index_file), (SELECT string_agg(DISTINCT xmin::text, ',') FROM chunk)
        FROM search_index_task
    """
    with open_pool(project.service.database_url) as pool, pool.connection() as connection:
        return len(provider.audit.requests), *connection.execute(query.encode()).fetchall()


def test_no_change_of_lists_reads_or_embeds(project: Project, provider: EmbeddingsFake) -> None:
    everything = {*SHOWN, *HIDDEN}
    secret = {path for path in HIDDEN if path.startswith("secret/")}
    assert listed(project, ANN) == everything
    # vectors that are cached would hide that a file was embedded again
    with open_pool(project.service.database_url) as pool, pool.connection() as connection:
        connection.execute("DELETE FROM embedding_cache")
    before = work_done(project, provider)
    assert before[0]

    def sees(*, ann: set[str], bob: set[str]) -> None:
        eventually(lambda: (listed(project, ANN), listed(project, BOB)) == (ann, bob), 5)
        assert work_done(project, provider) == before

    project.change("notes.md", [BOB])
    sees(ann=everything - {"notes.md"}, bob=everything)
    project.change("notes.md", None)
    project.change("secret", [BOB])
    sees(ann=everything - secret, bob=everything)
    project.change("secret/wages.md", ["*", f"!{BOB}"])
    sees(ann=everything - secret | {"secret/wages.md"}, bob=everything - {"secret/wages.md"})
    project.change("secret/wages.md", None)
    project.change("secret", None)
    rules(project, {"path": "open/**", "acl": [ANN]})
    sees(ann=everything, bob=everything - {"open/plan.md"})
    rules(project)
    sees(ann=everything, bob=everything)
