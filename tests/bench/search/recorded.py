"""Records what the legs of a search find, so that rankings can be compared without searching again.

A recording has everything that the service's own ranking reads. `ranked` runs that ranking, so nothing here can differ
from it.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import numpy as np

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex, seen
from api.search.chunks.candidates import Candidate, RankedCandidates, fuse, rank_candidates, wanted_ids
from api.search.chunks.legs import Ranking, defining_chunks, embed, run_legs
from api.search.query.filters import resolve_filters
from api.search.query.index_search import MIN_DEPTH, IndexSearch
from api.search.rank.weights import Weights
from schemas.content.acl import EVERYTHING
from schemas.queries.search import Query
from tests.bench.search.questions import Passage, Question
from tests.service import PROJECT, Service
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tools
from worker.state.search import found_chunks
from worker.state.search.found_chunks import HitRow
from worker.vectors import Vector

_VECTORS = """
SELECT encode(text_hash, 'hex'), vector FROM embedding_cache
WHERE project_id = %s AND encode(text_hash, 'hex') = ANY (%s)
"""

Rows = Mapping[str, HitRow]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A question and its vector, with what each leg found, and the chunks that define a name of it."""

    question: Question
    vector: Vector
    rankings: Sequence[Ranking]
    defining: Collection[str]


@dataclass(frozen=True, slots=True)
class Recording:
    """The questions of one folder, and the rows and vectors of all chunks that were found."""

    recorded: Sequence[Recorded]
    rows: Rows
    vectors: Mapping[str, Vector]


def recording(
    file: Path, service: Service, tool: str, questions: Sequence[Question], depth: int = MIN_DEPTH
) -> Recording:
    """The recording in the file, if it has these questions; otherwise records it there, each leg to this depth."""
    if found := kept(file, questions):
        return found
    made = _record(service, tool, questions, depth)
    file.write_bytes(pickle.dumps(made))
    return made


def kept(file: Path, questions: Sequence[Question]) -> Recording | None:
    """The recording in the file; None if it is missing or has other questions."""
    if not file.exists():
        return None
    found: Recording = pickle.loads(file.read_bytes())
    return found if [each.question for each in found.recorded] == list(questions) else None


def ranked(request: Query, weights: Weights, each: Recorded, rows: Rows) -> Sequence[Candidate]:
    """The candidates as the service ranks them, best first."""
    return ranking(request, weights, each, rows).candidates


def ranking(request: Query, weights: Weights, each: Recorded, rows: Rows) -> RankedCandidates:
    """The candidates as the service ranks them, and how sure they are."""
    # in mode `keyword`, the service does not run the others
    rankings = [leg for leg in each.rankings if request.mode != "keyword" or leg.kind != "vector"]
    fusion = fuse(request, weights, rankings, each.defining)
    wanted = wanted_ids(request, fusion, {})
    found = {id_: rows[id_] for id_ in wanted if id_ in rows}
    return rank_candidates(request, weights, fusion, found)


def passages(candidates: Sequence[Candidate], depth: int) -> list[Passage]:
    """The first candidates as passages."""
    rows = [candidate.row for candidate in candidates[:depth]]
    return [Passage(row.file_path, row.start_line, row.chunk_text) for row in rows]


def _record(service: Service, tool: str, questions: Sequence[Question], depth: int) -> Recording:
    resources = Resources(_settings(service))
    with closing(resources.pool):
        index = tools.index_of_tool(resources.pool, UUID(tool))
        if index is None:
            raise LookupError(f"no tool {tool}")
        recorded = [_legs(resources, seen(index, EVERYTHING), question, depth) for question in questions]
        ids = {id_ for each in recorded for ranking in each.rankings for id_ in ranking.ids}
        defining = {id_ for each in recorded for id_ in each.defining}
        rows = found_chunks.hits(resources.pool, index.id, ids | defining)
        return Recording(recorded, rows, _vectors(service, rows))


def _vectors(service: Service, rows: Rows) -> dict[str, Vector]:
    """The vectors of chunks by id, shape (384,)."""
    hashes = {row.content_hash.removeprefix("sha256:") for row in rows.values()}
    stored = dict(service.rows(_VECTORS, PROJECT, sorted(hashes)))
    by_id = {id_: stored.get(row.content_hash.removeprefix("sha256:")) for id_, row in rows.items()}
    return {id_: np.frombuffer(vector, dtype="<f4") for id_, vector in by_id.items() if vector is not None}


def _settings(service: Service) -> Settings:
    names = {name.upper() for name in Settings.model_fields}
    return Settings(**{name.lower(): value for name, value in service.env.items() if name in names and value})


def _legs(resources: Resources, index: SeenIndex, question: Question, depth: int) -> Recorded:
    request = Query(query=question.query)
    store = resources.store_of(index)
    filters = resolve_filters(resources.pool, index, request.filters)
    search = IndexSearch(resources, index, store, request, filters, depth, whole_files=False, disconnect=Disconnect())
    vectors, _ = embed(search)
    return Recorded(question, vectors[0], run_legs(search).rankings, defining_chunks(search))
