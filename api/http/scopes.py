"""The scope that each operation needs. `create_app` refuses a route without one, so none can be forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Match
from starlette.types import Scope as Connection

from schemas.derived import DerivedConfigs
from schemas.errors import ScopeMissing
from schemas.scopes import Level, Scope

#: Beginnings of the paths that need a key.
_GUARDED = ("/api/", "/v1/", "/mcp")
#: Operations by the scope that they need, each the name of its function or route.
_OPERATIONS: dict[Level, tuple[str, ...]] = {
    "search": (
        "get_access",
        "get_chunk",
        "get_content",
        "get_file",
        "get_hosts",
        "get_impact",
        "get_node",
        "get_outline",
        "get_status",
        "get_tool",
        "grep_tool",
        "head_content",
        "list_callees",
        "list_callers",
        "list_chunks",
        "list_files",
        "list_indexers",
        "list_metadata",
        "list_models",
        "list_nodes",
        "list_places",
        "list_references",
        "list_sources",
        "list_statuses",
        "list_summaries",
        "list_symbols",
        "list_tasks",
        "list_tools",
        # each tool of agents has a scope of its own, and calls operations with the same key
        "mcp",
        "query_tool",
        "search_project",
        "stream_events",
    ),
    "write": (
        "cancel_tool",
        "cancel_tree",
        "create_node",
        "create_tool",
        "delete_node",
        "delete_tool",
        "patch_node",
        "patch_tool",
        "reindex_project",
        "reindex_tool",
        "retry_tool",
        "upload_files",
    ),
    "admin": (
        "create_key",
        "delete_project",
        "list_keys",
        # for the operator's own page, which has no key
        "open_session",
        "permit_place",
        "revoke_key",
        "rotate_key",
    ),
}
#: Those of each derived index, whose names end with that of its indexer.
_OF_INDEXERS: dict[Level, tuple[str, ...]] = {"search": ("get", "estimate"), "write": ("build", "delete")}
NEEDED: dict[str, Level] = {name: level for level, names in _OPERATIONS.items() for name in names} | {
    f"{call}_{indexer}": level
    for indexer in DerivedConfigs.model_fields
    for level, calls in _OF_INDEXERS.items()
    for call in calls
}


def is_guarded(path: str) -> bool:
    """Whether a path needs a key."""
    return path.startswith(_GUARDED)


class OperationScopes:
    """The scope of each route of an application. Raises `LookupError` for a route, or a scope, without the other."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        guarded = [route for route in iter_route_contexts(list(routes)) if is_guarded(route.path or "")]
        names = {route.name for route in guarded}
        if unlike := names ^ set(NEEDED):
            raise LookupError(f"Each route below {', '.join(_GUARDED)} needs one entry in {__name__}: {unlike}")
        self._routes = [(route, NEEDED[route.name or ""]) for route in guarded]

    def check(self, connection: Connection, held: Collection[Scope]) -> None:
        """Raise `ScopeMissing` unless the scope of the operation that a request is for is among these."""
        # it includes the scope of every operation
        if "admin" in held:
            return
        needed = self._needed(connection)
        if needed is not None and needed not in held:
            raise ScopeMissing.of(needed, held)

    def _needed(self, connection: Connection) -> Level | None:
        """The scope of an operation, found as the router finds its route; None without a route."""
        found = (needed for route, needed in self._routes if route.matches(connection)[0] is Match.FULL)
        return next(found, None)
