"""FastAPI dependencies of routes: the process's resources and the caller."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from api.http.lookup_cache import Known
from api.http.middleware import looked_up, sent_key, unauthorized
from schemas.errors import Invalid, NotFound
from worker.resources import Resources
from worker.state.access import keys
from worker.state.index import tools
from worker.state.index.tools import Index
from worker.state.postgres import Pool


@dataclass(frozen=True, slots=True)
class Caller:
    """The project that sends the request; `project_id` is None if `AUTH=off`."""

    project_id: str | None

    def sees(self, project_id: str) -> bool:
        """Whether the caller may see a project."""
        return self.project_id in (None, project_id)

    def check(self, project_id: str) -> None:
        """Raise `NotFound` for a project that the caller may not see, as if it did not exist."""
        if not self.sees(project_id):
            raise NotFound(f"There is no project {project_id!r}; check the id, or use a key of that project.")


async def _resources(request: Request) -> Resources:
    found: Resources = request.app.state.resources
    return found


ResourcesDep = Annotated[Resources, Depends(_resources)]


async def _has_space(resources: ResourcesDep) -> None:
    resources.space.check()


#: Rejects calls that add data while the disk is full. Reads, cancels and deletes still work.
needs_space = Depends(_has_space)


async def _known(request: Request) -> Known:
    found: Known = request.app.state.known
    return found


#: Cached lookups, possibly `lookup_cache.SECONDS` old. Code that changes the rows must call `forget`.
KnownDep = Annotated[Known, Depends(_known)]


def _caller(request: Request, resources: ResourcesDep) -> Caller:
    key = _sent_key(request, resources)
    return Caller(None) if key is None else _owner(keys.project(resources.pool, key))


async def _known_caller(request: Request, resources: ResourcesDep, known: KnownDep) -> Caller:
    key = _sent_key(request, resources)
    if key is None:
        return Caller(None)
    project_id = await looked_up(known.projects, keys.hashed(key))
    return _owner(project_id)


def _sent_key(request: Request, resources: Resources) -> str | None:
    """The key that was sent; None with `AUTH=off`, where the middleware has already admitted the caller."""
    return None if resources.settings.auth == "off" else sent_key(request)


def _owner(project_id: str | None) -> Caller:
    if project_id is None:
        raise unauthorized()
    return Caller(project_id)


CallerDep = Annotated[Caller, Depends(_caller)]

#: For routes called hundreds of times a second. A key revoked by another process works for another
#: `lookup_cache.SECONDS`.
KnownCallerDep = Annotated[Caller, Depends(_known_caller)]


def of_tool(
    read: Callable[[Pool, UUID], dict[str, Any] | None], tool_id: str, caller: Caller, resources: Resources
) -> dict[str, Any]:
    """The row that `read` returns for a tool's id. Raises `NotFound` unless the caller may see its `project_id`."""
    try:
        found = read(resources.pool, UUID(tool_id))
    except ValueError:
        found = None
    if found is None or not caller.sees(found["project_id"]):
        raise _no_tool(tool_id)
    return found


def _no_tool(tool_id: str) -> NotFound:
    return NotFound(f"There is no search tool {tool_id!r}; list yours with GET /api/tools/search.")


def _tool(tool_id: str, caller: CallerDep, resources: ResourcesDep) -> dict[str, Any]:
    return of_tool(tools.get, tool_id, caller, resources)


#: The row of the tool in the path, if the caller may see it.
ToolDep = Annotated[dict[str, Any], Depends(_tool)]


def _index(tool: ToolDep, resources: ResourcesDep) -> Index:
    # one fresh read: the tool may have moved to another index since its row was read
    found = tools.index_of_tool(resources.pool, tool["tool_id"])
    if found is None:
        raise NotFound("This tool is being deleted.")
    return found


#: The index of the tool in the path.
IndexDep = Annotated[Index, Depends(_index)]


async def _known_index(tool_id: str, caller: KnownCallerDep, known: KnownDep) -> Index:
    try:
        found = known.indexes.kept(UUID(tool_id))
        if found is None or not caller.sees(found.project_id):
            # another project's cached tool must not answer faster than a missing one: the timing would reveal it
            found = await run_in_threadpool(known.indexes.anew, UUID(tool_id))
    except ValueError:
        found = None
    if found is None or not caller.sees(found.project_id):
        raise _no_tool(tool_id)
    return found


#: The index of the tool in the path, if the caller may see it, without asking Postgres each time.
KnownIndexDep = Annotated[Index, Depends(_known_index)]


def to_cursor(*parts: Any) -> str:
    """Encode the position after a row as an opaque cursor."""
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode()


def from_cursor(cursor: str | None, *kinds: Any) -> tuple[Any, ...] | None:
    """The parts of a cursor, each converted by its kind. Raises `Invalid` for a malformed cursor."""
    if cursor is None:
        return None
    try:
        parts = orjson.loads(base64.urlsafe_b64decode(cursor))
        return tuple(kind(part) for kind, part in zip(kinds, parts, strict=True))
    except (ValueError, TypeError, AttributeError) as error:
        raise Invalid("The cursor is not one of ours; take next_cursor as it was given, or leave it out.") from error
