"""Shows the chunks of a file: all of them in pages, or one with its neighbours."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from api.http import large_answers
from api.http.bodies import JsonRoute
from api.http.dependencies import IndexDep, ResourcesDep, ToolId
from api.http.described_errors import raises
from api.http.sight import SeenIndex
from api.routes.paging import Cursor, Limit, from_cursor, page
from api.routes.tools import FileId, file_of
from api.search.text.page_picture import page_picture
from api.search.text.visibility import visible_files
from schemas.errors import NotFound, SourceBusy, SourceUnavailable
from schemas.queries.search import Around, FileChunk, ListedChunk
from schemas.tool import Listing
from worker.resources import Resources
from worker.state.search import found_chunks, snippets
from worker.state.search.found_chunks import HitRow

router = APIRouter(prefix="/api/tools/search/{tool_id}", tags=["search"], route_class=JsonRoute)

#: Maximum neighbours on each side.
MAX_NEIGHBOURS = 100

ChunkId = Annotated[
    str, Path(description="Id of the chunk, as in a hit.", examples=["0c9c7a52-8f53-4c1e-b4a4-2b8e5d1f7a90"])
]
Count = Annotated[int, Query(ge=0, le=MAX_NEIGHBOURS, description="Number of neighbouring chunks on this side.")]


@router.get("/chunks/{chunk_id}", response_model=Around, openapi_extra=raises(SourceUnavailable, SourceBusy))
def get_chunk(
    index: IndexDep,
    resources: ResourcesDep,
    chunk_id: ChunkId,
    before: Count = 0,
    after: Count = 0,
    picture: Annotated[bool, Query(description="Whether to draw the page of a PDF, with the chunk's lines.")] = False,
) -> Response:
    """Get a chunk with up to `before` and `after` neighbours in its file. Page on from the first or last of them."""
    row = _live_row(resources, index, chunk_id)
    chunk = snippets.ShownChunk(UUID(row.chunk_id), row.chunk_index, row.start_char)
    with large_answers.text(before + after, index.project_id, with_file=picture):
        [(in_front, behind)] = snippets.neighbours(
            resources.pool, index.id, [(row.file_id, [chunk])], before=before, after=after
        )
        drawn = page_picture(resources, index, row) if picture else None
        around = Around(chunk=FileChunk(**row._asdict()), before=in_front, after=behind, picture=drawn)
        return Response(around.model_dump_json(), media_type="application/json")


@router.get("/files/{file_id}/chunks", response_model=Listing[ListedChunk])
def list_chunks(
    tool_id: ToolId,
    index: IndexDep,
    resources: ResourcesDep,
    file_id: FileId,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List the searchable chunks of a file in its order, with their tokens, positions and ids."""
    file = file_of(resources, index, tool_id, file_id)
    after = from_cursor(cursor, int, UUID)
    with large_answers.text(limit, index.project_id):
        listed = page(
            lambda most: snippets.page(resources.pool, file.id, after=after, limit=most),
            limit,
            lambda chunk: chunk,
            attrgetter("chunk_index", "chunk_id"),
        )
        return Response(listed.model_dump_json(), media_type="application/json")


def _live_row(resources: Resources, index: SeenIndex, chunk_id: str) -> HitRow:
    try:
        rows = found_chunks.hits(resources.pool, index.id, [str(UUID(chunk_id))])
    except ValueError:
        rows = {}
    visible = visible_files(resources.pool, index)
    row = next(iter(rows.values()), None)
    if row is None or (visible is not None and row.file_id not in visible.ids):
        raise NotFound(f"This tool has no chunk {chunk_id!r}; query again, because its file may have changed.")
    return row
