"""Checks after every fault: compares the index with a run without faults, with the store, and with the bill."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos import corpus
from tests.chaos.cluster import PAID_IN_VAIN, Cluster
from tests.service import TOOLS, checked, eventually

Chunks = list[tuple[str, int, str]]
Outcomes = list[tuple[str, str, str | None]]

#: SQL for the index of a tool.
INDEX = "(SELECT index_id FROM search_tool WHERE id = %s)"
CHUNKS = f"""
SELECT f.path, c.chunk_index, c.context || c.chunk_text FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.index_id = {INDEX} AND c.live ORDER BY 1, 2, 3
"""
OUTCOMES = f"""
SELECT path, status, reason FROM search_index_file WHERE index_id = {INDEX} AND status <> 'removed' ORDER BY 1
"""

#: What the store should say about live chunks. Written independently of the product's own queries.
ATTRIBUTES = f"""
SELECT c.id::text, jsonb_build_object(
    'chunk_id', c.id, 'content_hash', c.content_hash, 'json_pointer', c.json_pointer, 'language', c.language,
    'symbol', c.symbol, 'node_type', c.node_type, 'scope', c.scope, 'level', c.level,
    'file_node_id', coalesce(f.node_id, f.id::text), 'file_id_path', f.id_path,
    'file_name', regexp_replace(f.path, '^.*/', ''), 'file_type', f.type)
FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.index_id = {INDEX} AND c.live AND f.status = 'indexed'
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What an index holds, with the folder's mark replaced."""

    chunks: Chunks
    outcomes: Outcomes


@dataclass(slots=True)
class Case:
    """One folder indexed for one project. A separate project has a separate index."""

    here: Cluster
    project: str
    folder: Path
    mark: str
    lance: bool = False
    tool: str = ""

    def start(self) -> str:
        """Create another tool over the folder."""
        self.tool = self.here.tool(self.project, self.folder, lance=self.lance)
        return self.tool

    def result(self) -> Result:
        return result(self.here, self.tool, self.mark)


def case(here: Cluster, root: Path, name: str, *, lance: bool = False, notes: int = corpus.NOTES) -> Case:
    """Create a new folder in a new project."""
    mark = corpus.new_mark()
    return Case(here, f"{name}-{mark}", corpus.make(root / mark, mark, notes), mark, lance)


def result(here: Cluster, tool: str, mark: str = "\0") -> Result:
    """Live chunks (file, ordinal, text) and the outcome of every file."""
    chunks, files = here.rows(CHUNKS, tool), here.rows(OUTCOMES, tool)
    return Result([(path, place, text.replace(mark, "MARK")) for path, place, text in chunks], files)


def paid_twice(here: Cluster, tool: str) -> int:
    """How many times the provider was asked again for a live text of this index after the first time."""
    hashes = here.rows(f"SELECT DISTINCT content_hash FROM chunk WHERE index_id = {INDEX} AND live", tool)
    texts = here.embeddings.audit.texts
    return sum(max(0, texts[content_hash.removeprefix("sha256:")] - 1) for (content_hash,) in hashes)


def prove(made: Case, expected: Result, *, in_vain: int = PAID_IN_VAIN, seconds: float = 60) -> dict[str, Any]:
    """The task ended `ready` by itself, and everything is as in a run without faults."""
    here = made.here
    status = here.wait(made.tool, seconds)
    assert status["status"] == "ready", f"{status}\n{here.logs()}"
    found = made.result()
    assert found.outcomes == expected.outcomes
    assert found.chunks == expected.chunks
    assert status["total_chunks"] == len(expected.chunks)
    outcomes = Counter(outcome for _, outcome, _ in found.outcomes)
    counts = (status["indexed_files"], status["skipped_files"], status["failed_files"], status["total_files"])
    assert counts == (outcomes["indexed"], outcomes["skipped"], outcomes["failed"], len(found.outcomes))
    prove_vectors(here, made.tool, lance=made.lance)
    prove_answers(made, expected)
    assert paid_twice(here, made.tool) <= in_vain
    return status


def prove_vectors(here: Cluster, tool: str, *, lance: bool = False, complete: bool = True) -> None:
    """Soon all chunk rows are live and have exactly the vectors of the store. The sweep may have to delete some first.

    Unless the run is `complete`, chunks may still wait for their vectors. The attributes in the store equal those in
    the rows.
    """
    ((namespace,),) = here.rows(f"SELECT namespace FROM search_index WHERE id = {INDEX}", tool)
    seen: list[set[str]] = []

    def equal() -> bool:
        rows = here.rows(f"SELECT id::text, live, lost FROM chunk WHERE index_id = {INDEX}", tool)
        live = {id_ for id_, is_live, _ in rows if is_live}
        waiting = set() if complete else {id_ for id_, _, is_waiting in rows if is_waiting}
        vectors = here.vector_ids(namespace, lance=lance)
        seen[:] = [
            {id_ for id_, *_ in rows} - live,
            live - waiting - vectors,
            vectors - live,
            wrong(here, tool, namespace, lance=lance),
        ]
        return not any(seen)

    def what() -> str:
        half, lost, stray, misplaced = seen
        graves = {id_ for (id_,) in here.rows(f"SELECT id::text FROM chunk_tombstone WHERE index_id = {INDEX}", tool)}
        return (
            f"{namespace}: {len(half)} half written, {len(lost)} lost, {len(stray)} stray, "
            f"{len(stray & graves)} buried, {len(misplaced)} with wrong attributes"
        )

    make_late_writes_impossible(here)
    eventually(equal, 30, what)


def wrong(here: Cluster, tool: str, namespace: str, *, lance: bool) -> set[str]:
    """Live chunks whose attributes in the store differ from their rows."""
    stored = here.attributes(namespace, lance=lance)
    expected = here.rows(ATTRIBUTES, tool)
    form = here.form(namespace)
    kept = ((id_, form(row)) for id_, row in expected if id_ in stored)
    return {id_ for id_, row in kept if any(stored[id_].get(name) != value for name, value in row.items())}


def prove_answers(made: Case, expected: Result) -> None:
    """Searches by words, by vectors and below a path find the same as after a run without faults."""
    client = made.here.lance if made.lance else made.here.client
    below = {(path, place) for path, place, _ in expected.chunks if path.startswith("note-1")}
    asked = {"top_k": len(below) + 1, "filters": {"path": "note-1*.md"}}
    birds = {(path, place) for path, place, text in expected.chunks if (path, place) in below and "birds" in text}
    for mode, query, wanted in (("vector", "apples", below), ("keyword", "birds", birds)):
        body = {"query": query, "mode": mode, **asked}
        answer = client.post(f"{TOOLS}/{made.tool}/query", json=body)
        if not below:
            assert checked(answer, 422)["code"] == "no_such_files"
            continue
        found = checked(answer, 200)["results"]
        assert {(hit["file_path"], hit["chunk_index"]) for hit in found} == wanted, mode


def make_late_writes_impossible(here: Cluster) -> None:
    """Let the minutes pass after which no sent write can still arrive, by moving the times of deleted rows only.

    Deletes that the store refused wait for up to five minutes, which pass too.
    """
    here.rows("UPDATE chunk_tombstone SET created_at = created_at - interval '1 hour'")
    here.rows("UPDATE search_index SET deleted_at = deleted_at - interval '1 hour' WHERE deleted_at IS NOT NULL")
    here.rows("UPDATE search_index_upkeep SET after = least(after, now())")
