"""Lists definitions in a folder's code, and where names are used."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api.http.bodies import JsonRoute
from api.http.dependencies import IndexDep, ResourcesDep
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.http.sight import SeenIndex
from api.routes.paging import Cursor, Limit, from_cursor, page
from api.routes.search.metadata_keys import FilterParameter, selected
from api.search.code import calls
from api.search.code.calls import FoundCalls
from api.search.code.code_files import MAX_NAMED
from api.search.code.impact import impact
from api.search.code.reads import FoundReads, find_reads, not_followed
from schemas.content.document import Kind
from schemas.errors import FilterMatchesNothing, Invalid, SourceBusy
from schemas.queries.search import Note
from schemas.queries.symbol import Calls, Impact, Symbol, Usage, Uses
from schemas.tool import Listing
from worker.resources import Resources
from worker.state.search import code_texts, symbols
from worker.state.search.code_texts import Defined, Only

router = APIRouter(prefix="/api/tools/search/{tool_id}", tags=["symbols"], route_class=JsonRoute)

Scope = Annotated[
    str | None,
    Query(min_length=1, max_length=8192, description="Only definitions in this scope, such as `outer/inner`."),
]
FileId = Annotated[UUID | None, Query(description="Only definitions in this file.")]
_CALLED = Query(
    min_length=1, max_length=8192, description="A name or a qualified name: `Foo.run`, `Foo::run`, `Foo/run`."
)
Called = Annotated[str, _CALLED]
Depth = Annotated[int, Query(ge=1, le=5, description="Maximum number of calls to follow from the name.")]


@router.get("/symbols")
def list_symbols(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    name: Annotated[str | None, _CALLED] = None,
    prefix: Annotated[str | None, Query(min_length=1, max_length=1024, description="Only names that begin so.")] = None,
    kind: Annotated[Kind | None, Query(description="Only definitions of this kind.")] = None,
    metadata: FilterParameter = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Symbol]:
    """List definitions by name, then path and line: all, those of one name, or those with a prefix."""
    after = from_cursor(cursor, str, str, str, UUID, int)
    only = selected(resources, index, metadata, disconnect)
    return page(
        lambda most: symbols.definitions(
            resources.pool, index.id, name=name, prefix=prefix, kind=kind, only=only, after=after, limit=most
        ),
        limit,
        lambda row: row,
        attrgetter("name", "file_path", "file_id_path", "file_id", "number"),
    )


@router.get("/outline", openapi_extra=raises(FilterMatchesNothing))
def get_outline(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    path: Annotated[
        str | None,
        Query(min_length=1, max_length=4096, description="A file, or a folder to list below; null: the whole folder."),
    ] = None,
    metadata: FilterParameter = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Symbol]:
    """List the definitions of a file, or of all files below a folder, by path and line."""
    below = path.strip("/") if path else None
    visible = selected(resources, index, None, disconnect)
    if below and not symbols.has_path(resources.pool, index.id, below, visible):
        raise FilterMatchesNothing(f"There is no file at path={path!r}; list the tool's files.")
    after = from_cursor(cursor, str, str, UUID, int)
    only = visible if metadata is None else selected(resources, index, metadata, disconnect)
    return page(
        lambda most: symbols.outline(resources.pool, index.id, path=below or None, only=only, after=after, limit=most),
        limit,
        lambda row: row,
        attrgetter("file_path", "file_id_path", "file_id", "number"),
    )


@router.get("/impact", openapi_extra=raises(SourceBusy))
def get_impact(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    name: Called,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of items of each list.")] = 100,
    metadata: FilterParameter = None,
) -> Impact:
    """Show what a change to a name may affect: definitions, references, tests, and other lines with the word."""
    only = selected(resources, index, metadata, disconnect)
    return impact(resources, index, name, limit, disconnect.event, only)


@router.get("/references")
def list_references(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    name: Annotated[str | None, Query(min_length=1, max_length=1024, description="Only uses of this name.")] = None,
    kind: Annotated[Usage | None, Query(description="Only uses of this kind.")] = None,
    file_id: Annotated[UUID | None, Query(description="Only uses in this file.")] = None,
    scope: Annotated[
        str | None,
        Query(min_length=1, max_length=8192, description="Only uses inside this definition, such as `outer/inner`."),
    ] = None,
    metadata: FilterParameter = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Uses:
    """List where a name is called, imported, inherited, used as a type, read or assigned, by path and line.

    With `file_id` and `scope`, list what a definition uses: without `name`, no reads and no assignments.
    """
    if name is None and file_id is None:
        raise Invalid("Send `name` for what is used, or `file_id` (and optionally `scope`) for where it is used.")
    after = from_cursor(cursor, str, str, UUID, int, int)
    only = selected(resources, index, metadata, disconnect)
    reads = FoundReads()
    if name is not None and kind in {None, "read", "write"}:
        reads = find_reads(resources.pool, index.id, symbols.qualified(name)[1], only)
    listed = page(
        lambda most: symbols.references(
            resources.pool,
            index.id,
            name=name,
            kind=kind,
            file=file_id,
            scope=scope,
            added=reads.uses,
            only=only,
            after=after,
            limit=most,
        ),
        limit,
        lambda row: row,
        attrgetter("file_path", "file_id_path", "file_id", "start_line", "number"),
    )
    return Uses(items=listed.items, next_cursor=listed.next_cursor, notes=reads.notes)


@router.get("/symbols/callers")
def list_callers(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    name: Called,
    depth: Depth = 1,
    scope: Scope = None,
    file_id: FileId = None,
    metadata: FilterParameter = None,
) -> Calls:
    """List the definitions that call this name, their callers, and so on up to `depth`.

    `scope` and `file_id` select one of several definitions of the name.
    """
    only = selected(resources, index, metadata, disconnect)
    start = _start(resources, index, name, scope, file_id, only)
    if start is None:
        return _calls(name, (), FoundCalls([], is_cut=False), [])
    last = symbols.qualified(name)[1]
    found = calls.callers(resources.pool, index.id, last, start, depth, only)
    return _calls(name, start, found, not_followed(resources.pool, index.id, last, only))


@router.get("/symbols/callees")
def list_callees(
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    name: Called,
    depth: Depth = 1,
    scope: Scope = None,
    file_id: FileId = None,
    metadata: FilterParameter = None,
) -> Calls:
    """List what the definitions of this name call, what those call, and so on up to `depth`.

    `scope` and `file_id` select one of several definitions of the name.
    """
    only = selected(resources, index, metadata, disconnect)
    start = _start(resources, index, name, scope, file_id, only) or ()
    found = calls.callees(resources.pool, index.id, start, depth, only) if start else FoundCalls([], is_cut=False)
    last = symbols.qualified(name)[1]
    return _calls(name, start, found, not_followed(resources.pool, index.id, last, only))


def _start(
    resources: Resources, index: SeenIndex, name: str, scope: str | None, file_id: UUID | None, only: Only
) -> Sequence[Defined] | None:
    """The definitions that are meant; None if the scope or the file leaves none."""
    enclosing, last = symbols.qualified(name)
    path = "/".join(filter(None, (scope, enclosing)))
    found = code_texts.named(resources.pool, index.id, last, MAX_NAMED, scope=path, file=file_id, only=only)
    return found if found or not (path or file_id) else None


def _calls(name: str, start: Sequence[Defined], found: FoundCalls, notes: list[Note]) -> Calls:
    count = len(start)
    return Calls(
        name=name,
        definitions=count,
        ambiguous=count > 1 or any(call.ambiguous for call in found.items if call.depth == 1),
        items=found.items,
        truncated=found.is_cut or count == MAX_NAMED,
        notes=notes,
    )
