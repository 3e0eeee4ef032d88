"""FastAPI dependencies of routes: the process's resources and the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Depends, Path, Request
from fastapi.concurrency import run_in_threadpool

from api.http.lookup_cache import LookupCaches
from api.http.middleware import AdmittedKey, looked_up, unauthorized
from api.http.request_log import note_project
from api.http.sight import SeenIndex, seen
from api.identity.tokens import TokenHolder
from schemas.content.acl import EVERYTHING, Sight
from schemas.errors import NotFound, ScopeMissing
from schemas.scopes import SCOPES, Scope, allowed
from schemas.tool import Tool
from worker.resources import Resources
from worker.state.access.keys import ValidKey
from worker.state.index import tools
from worker.state.index.statuses import TaskOfTool
from worker.state.pool import Pool

OfTool = TypeVar("OfTool", Tool, TaskOfTool)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of the request: its key, or its token's holder; None if `AUTH=off`."""

    key: ValidKey | TokenHolder | None
    #: The principals that it acts for; None: itself.
    principals: frozenset[str] | None = None

    @property
    def sight(self) -> Sight:
        """Whose documents may be shown to the caller."""
        if self.principals is None and (self.key is None or "all_documents" in self.scopes):
            return EVERYTHING
        return Sight(self.principals or frozenset())

    @property
    def project_id(self) -> str | None:
        """The project of the key or token; None if `AUTH=off`."""
        return None if self.key is None else self.key.project_id

    @property
    def scopes(self) -> frozenset[Scope]:
        """All that the caller may do."""
        return allowed(SCOPES) if self.key is None else self.key.scopes

    def needs(self, scope: str) -> None:
        """Raise `ScopeMissing` unless the caller has a scope that only some calls of the operation need."""
        if scope not in self.scopes:
            raise ScopeMissing.of(scope, self.scopes)

    def refusal(self, scope: str) -> str | None:
        """The message that refuses a caller without a scope; None if the caller has it."""
        return None if scope in self.scopes else ScopeMissing.of(scope, self.scopes).message

    def sees(self, project_id: str) -> bool:
        """Whether the caller may see a project."""
        return self.project_id in (None, project_id)

    def check(self, project_id: str) -> None:
        """Raise `NotFound` for a project that the caller may not see, as if it did not exist."""
        if not self.sees(project_id):
            raise NotFound(f"There is no project {project_id!r}; check the id, or use a key of that project.")
        note_project(project_id)


async def _resources(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


ResourcesDep = Annotated[Resources, Depends(_resources)]


async def _has_space(resources: ResourcesDep) -> None:
    resources.space.check()


#: Rejects calls that add data while the disk is full. Reads, cancels and deletes still work.
needs_space = Depends(_has_space)


async def _lookup_caches(request: Request) -> LookupCaches:
    caches: LookupCaches = request.app.state.lookup_caches
    return caches


#: Cached lookups, possibly `lookup_cache.CACHE_SECONDS` old. Code that changes the rows must call `forget`.
LookupCachesDep = Annotated[LookupCaches, Depends(_lookup_caches)]


async def _caller(request: Request, resources: ResourcesDep, caches: LookupCachesDep) -> Caller:
    admission = _admission(request, resources)
    if not isinstance(admission, AdmittedKey):
        return _keyless(admission)
    return _owner(admission, admission.key or await run_in_threadpool(caches.keys.fresh, admission.key_hash))


async def cached_caller(request: Request, resources: ResourcesDep, caches: LookupCachesDep) -> Caller:
    """The caller of a `CachedCallerDep`."""
    admission = _admission(request, resources)
    if not isinstance(admission, AdmittedKey):
        return _keyless(admission)
    found: ValidKey | None = await looked_up(caches.keys, admission.key_hash)
    return _owner(admission, found)


def _admission(request: Request, resources: Resources) -> AdmittedKey | TokenHolder | None:
    """The caller as the middleware identified it; None with `AUTH=off`, where callers without a key are admitted."""
    if resources.settings.auth == "off":
        return None
    admission: AdmittedKey | TokenHolder = request.state.admission
    return admission


def _keyless(holder: TokenHolder | None) -> Caller:
    return Caller(holder, None if holder is None else holder.principals)


def _owner(admission: AdmittedKey, key: ValidKey | None) -> Caller:
    if key is None:
        raise unauthorized()
    return Caller(key, admission.principals)


CallerDep = Annotated[Caller, Depends(_caller)]

#: For routes that any key may call, whatever its project.
known_caller = Depends(_caller)

#: For routes called hundreds of times a second. A key that expires, or that another process revokes, works for another
#: `lookup_cache.CACHE_SECONDS`.
CachedCallerDep = Annotated[Caller, Depends(cached_caller)]


def of_tool(read: Callable[[Pool, UUID], OfTool | None], tool_id: str, caller: Caller, resources: Resources) -> OfTool:
    """Return the result of `read` for a tool's id. Raises `NotFound` unless the caller may see its `project_id`."""
    try:
        found = read(resources.pool, UUID(tool_id))
    except ValueError:
        found = None
    if found is None or not caller.sees(found.project_id):
        raise _no_tool(tool_id)
    note_project(found.project_id)
    return found


def _no_tool(tool_id: str) -> NotFound:
    return NotFound(f"There is no search tool {tool_id!r}; list yours with GET /api/tools/search.")


#: The tool in the path. A string, so that an id that is not a UUID answers 404, like any other unknown id.
ToolId = Annotated[str, Path(description="Id of the search tool.", examples=["7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11"])]


def _tool(tool_id: ToolId, caller: CallerDep, resources: ResourcesDep) -> Tool:
    return of_tool(tools.get, tool_id, caller, resources)


#: The tool in the path, if the caller may see it.
ToolDep = Annotated[Tool, Depends(_tool)]


def _index(tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> SeenIndex:
    # one fresh read: the tool may have moved to another index since its row was read
    index = tools.index_of_tool(resources.pool, tool.tool_id)
    if index is None:
        raise NotFound("This tool is being deleted; create a new one.")
    return seen(index, caller.sight)


#: The index of the tool in the path, as the caller sees it.
IndexDep = Annotated[SeenIndex, Depends(_index)]


async def cached_index(tool_id: ToolId, caller: CachedCallerDep, caches: LookupCachesDep) -> SeenIndex:
    """The index of a `CachedIndexDep`. Raises `NotFound`."""
    try:
        index = caches.indexes.cached(UUID(tool_id))
        if index is None or not caller.sees(index.project_id):
            # another project's cached tool must not answer faster than a missing one: the timing would reveal it
            index = await run_in_threadpool(caches.indexes.fresh, UUID(tool_id))
    except ValueError:
        index = None
    if index is None or not caller.sees(index.project_id):
        raise _no_tool(tool_id)
    note_project(index.project_id)
    return seen(index, caller.sight)


#: The index of the tool in the path, if the caller may see it, without asking Postgres each time.
CachedIndexDep = Annotated[SeenIndex, Depends(cached_index)]
