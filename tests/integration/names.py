"""An indexer that finds chunks by the meaning of their files' names. A test copies this module to `api/indexers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from api.indexers import Build, Subject
from api.search.chunks.legs import embed
from api.search.pipeline import answer_by, cut
from api.search.query.index_search import Findings, IndexSearch
from schemas.errors import Invalid
from schemas.queries.search import Answer, Hit, Query, Step
from worker.resources import Resources
from worker.state.index import namespaces, tools
from worker.state.index.tools import Index
from worker.state.search import found_chunks
from worker.vectors import Leg, VectorRow, VectorStore

#: Of its namespace, after the name of the index's namespace.
SUFFIX = ".names"
#: The first chunk of each file stands for the file.
FIRST_CHUNKS = """
    SELECT c.id, f.path FROM chunk c JOIN search_index_file f ON f.id = c.file_id
    WHERE c.index_id = %s AND c.live AND c.chunk_index = 0 ORDER BY c.id
"""


class Names(BaseModel):
    """The names that can be found, or could be."""

    names: int = Field(description="Number of names.", examples=[3])


def check(_: Resources, config: Any) -> None:
    """Raise `Invalid` for names in capitals."""
    if config.shouted:
        raise Invalid("Names are not shouted; omit `shouted`.")


def estimate(resources: Resources, subject: Subject) -> Names:
    """Count the names of the folder."""
    return Names(names=len(_files(resources, subject)))


def build(resources: Resources, subject: Subject, _: Build) -> None:
    """Embed all names. So few of them need no worker."""
    index, store = _opened(resources, subject)
    files = _files(resources, subject)
    with resources.pool.connection() as connection:
        namespaces.register(connection, [index.id], SUFFIX)
    profile = index.settings.embedder
    vectors = resources.embedder(profile, explicit_dimensions=False).embed([path for _, path in files])
    rows = [VectorRow(id_, vector, {}) for (id_, _), vector in zip(files, vectors, strict=True)]
    store.write(index.namespace + SUFFIX, profile.dimensions, upserts=rows)


def status(resources: Resources, subject: Subject) -> Names:
    """Count the names that can be found."""
    index, store = _opened(resources, subject)
    return Names(names=len(store.ids(index.namespace + SUFFIX, None, 1000)))


def answer(
    resources: Resources,
    tool_id: UUID,
    index: SeenIndex,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None],
) -> Answer:
    """Find by meaning only. Raises `Invalid`."""
    if query.mode == "keyword":
        raise Invalid("Names are found by meaning; omit `mode`.")
    by_meaning = query.model_copy(update={"mode": "vector"})
    return answer_by(_find, resources, tool_id, index, by_meaning, disconnect=disconnect, on_step=on_step)


def drop(resources: Resources, subject: Subject) -> None:
    """Delete all names. Those of a deleted index go with it."""
    index = tools.index(resources.pool, subject.index_id)
    if index is not None:
        resources.store_of(index).drop(index.namespace + SUFFIX)


def _find(search: IndexSearch) -> Findings:
    vectors, report = embed(search)
    (ranking,) = search.store.search(search.index.namespace + SUFFIX, [Leg(search.depth, vector=vectors[0])])
    rows = found_chunks.hits(search.resources.pool, search.index.id, [row.id for row in ranking])
    hits = [
        Hit(**rows[row.id]._asdict(), file_name=rows[row.id].file_path, score=1 - row.value / 2, distance=row.value)
        for row in ranking
        if row.id in rows
    ]
    return Findings(cut(search, hits), report)


def _opened(resources: Resources, subject: Subject) -> tuple[Index, VectorStore]:
    index = tools.index(resources.pool, subject.index_id)
    assert index is not None
    return index, resources.store_of(index)


def _files(resources: Resources, subject: Subject) -> list[tuple[UUID, str]]:
    with resources.pool.connection() as connection:
        return connection.execute(FIRST_CHUNKS, [subject.index_id]).fetchall()
