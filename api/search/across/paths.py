"""Resolves the paths of a request, and finds the indexes that cover them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from api.search.across.readable import ReadableFiles, RuledFolder, SeenTool, is_within
from api.search.text.visibility import admitted_paths, ids_of, rules_with_lists, visible_files
from schemas.content.acl import Sight
from schemas.content.source import AnySource
from schemas.errors import FilterMatchesNothing
from worker.resources import Resources
from worker.sources import kind
from worker.sources.kind import ContentAccess
from worker.sources.registry import address_prefix, addresses, locate
from worker.state.index import file_lookup
from worker.state.search import found_chunks


@dataclass(frozen=True, slots=True)
class RequestedLocation:
    """A file or folder at the requested `path`. `key` is a single file's key in `source`, None for a folder.

    `covered` lists the addresses below it that tools search. `tools_above` have it in their folder, but no text of it.
    """

    path: str
    address: str
    source: AnySource
    key: bytes | None
    covered: tuple[str, ...] = ()
    tools_above: tuple[UUID, ...] = ()

    def is_covered(self, address: str) -> bool:
        """Whether a tool searches this file below the location."""
        return any(is_within(address, root) for root in self.covered)


@dataclass(frozen=True, slots=True)
class ToolRoute:
    """A tool to search, restricted to files and folders by `file_id_path`; None: all of its files.

    `prefix` turns the id path of one of its files into the file's address.
    """

    tool: SeenTool
    prefix: str
    id_paths: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class SearchTargets:
    """The targets of a search: tools, locations that no tool covers whole, and the `readable` part of these."""

    routes: Sequence[ToolRoute]
    readable: ReadableFiles
    uncovered: Sequence[RequestedLocation] = ()


#: A tool with the address of its folder.
_Rooted = tuple[str, SeenTool]


def whole(access: ContentAccess, tools: Sequence[SeenTool]) -> list[ToolRoute]:
    """The routes to all files of these tools."""
    roots = addresses(access, [tool.index.source for tool in tools])
    return [_whole(root, tool) for root, tool in zip(roots, tools, strict=True)]


def _whole(root: str | None, tool: SeenTool) -> ToolRoute:
    return ToolRoute(tool, address_prefix(tool.index.source, root))


def route_paths(
    resources: Resources, project_id: str, paths: Iterable[str], tools: Sequence[SeenTool], sight: Sight
) -> SearchTargets:
    """For each path, find the most specific tool that has text there. Paths that no tool covers whole are uncovered.

    In an uncovered folder, tools over folders below it search those. `tools` come newest first; among tools over the
    same folder the newest wins. Raises `SourceUnavailable`, and `FilterMatchesNothing`, which names all paths that are
    missing, closed, hidden or another project's.
    """
    access = resources.access(project_id)
    rooted = _by_address(access, tools)
    ruled = [
        RuledFolder(root, address_prefix(tool.index.source, root), tool.index)
        for root, tool in rooted
        if admitted_paths(tool.index) is not None
    ]
    readable = ReadableFiles(resources.pool, project_id, sight, ruled)
    by_path = {path: _targets_at(resources, access, path, rooted, readable) for path in paths}
    missing = [path for path, targets in by_path.items() if targets is None]
    if missing:
        listed = ", ".join(map(repr, missing))
        raise FilterMatchesNothing(
            f"Nothing can be read at {listed}; check the paths, the project and the source roots."
        )
    return _joined([targets for targets in by_path.values() if targets is not None], readable)


def _targets_at(
    resources: Resources, access: ContentAccess, path: str, rooted: Sequence[_Rooted], files: ReadableFiles
) -> SearchTargets | None:
    """The targets at one path; None if something there is missing or cannot be read."""
    locations = files.shown(_locations(access, path))
    routed = [(location, _route(resources, location, rooted, files.ruled)) for location in locations]
    routes = [route for _, route in routed if route is not None]
    readable = [_readable(location) for location, route in routed if route is None]
    uncovered = []
    for located in (located for located in readable if located is not None):
        location = RequestedLocation(path, located.address, located.source, located.key)
        tools_below = _tools_below(resources, location, rooted, files.ruled)
        routes += [_whole(root, tool) for root, tool in tools_below.items()]
        tools_above = tuple(tool.tool_id for root, tool in rooted if is_within(location.address, root))
        uncovered.append(replace(location, covered=tuple(tools_below), tools_above=tools_above))
    return None if not locations or None in readable else SearchTargets(routes, files, uncovered)


def _joined(all_targets: Sequence[SearchTargets], readable: ReadableFiles) -> SearchTargets:
    """The targets of all paths, each tool and each location once."""
    routes: dict[UUID, ToolRoute] = {}
    for route in (route for targets in all_targets for route in targets.routes):
        tool_id = route.tool.tool_id
        routes[tool_id] = _joined_route(routes[tool_id], route) if tool_id in routes else route
    uncovered = {location.address: location for targets in all_targets for location in targets.uncovered}
    return SearchTargets(list(routes.values()), readable, list(uncovered.values()))


def _joined_route(first: ToolRoute, second: ToolRoute) -> ToolRoute:
    """The files of both routes to the same tool."""
    if first.id_paths is None or second.id_paths is None:
        return replace(first, id_paths=None)
    return replace(first, id_paths=first.id_paths | second.id_paths)


def _by_address(access: ContentAccess, tools: Sequence[SeenTool]) -> list[_Rooted]:
    """Tools with the addresses of their folders, longest address first."""
    roots = zip(addresses(access, [tool.index.source for tool in tools]), tools, strict=True)
    rooted = [(root, tool) for root, tool in roots if root is not None]
    return sorted(rooted, key=lambda root_and_tool: -len(root_and_tool[0]))


def _route(
    resources: Resources, location: kind.SourceLocation, rooted: Sequence[_Rooted], ruled: Sequence[RuledFolder]
) -> ToolRoute | None:
    """The most specific tool that has text at the location, and hides what rules of others hide there."""
    for root, tool in rooted:
        if is_within(location.address, root) and _holds_all_rules(tool, root, location.address, ruled):
            route = _whole(root, tool)
            id_path = location.address.removeprefix(route.prefix)
            of_nodes = tool.index.source.content_node is not None
            visible = visible_files(resources.pool, tool.index)
            most = 1 if visible is None else None
            found = file_lookup.below(resources.pool, tool.index.id, id_path, limit=most, of_nodes=of_nodes)
            if found if visible is None else not visible.node_ids.isdisjoint(found):
                return route if location.address == root else replace(route, id_paths=frozenset([id_path]))
    return None


def _tools_below(
    resources: Resources, location: RequestedLocation, rooted: Sequence[_Rooted], ruled: Sequence[RuledFolder]
) -> dict[str, SeenTool]:
    """The outermost tools with text of folders below a location, by the address of their folder."""
    tools_below: dict[str, SeenTool] = {}
    for root, tool in sorted(rooted, key=lambda root_and_tool: len(root_and_tool[0])):
        is_outermost = not any(is_within(root, other) for other in tools_below)
        if is_outermost and is_within(root, location.address) and _holds_all_rules(tool, root, root, ruled):
            visible = visible_files(resources.pool, tool.index)
            if found_chunks.any_live(resources.pool, tool.index.id, ids_of(visible)):
                tools_below[root] = tool
    return tools_below


def _holds_all_rules(tool: SeenTool, root: str, address: str, ruled: Sequence[RuledFolder]) -> bool:
    """Whether no rules of other tools say who reads files at an address, or a tool over `root` has the same."""
    return all(
        folder.index.tool_id == tool.tool_id
        or (folder.root == root and rules_with_lists(folder.index) == rules_with_lists(tool.index))
        for folder in ruled
        if is_within(address, folder.root) or is_within(folder.root, address)
    )


def _locations(access: ContentAccess, path: str) -> list[kind.SourceLocation]:
    """The locations that a path may mean."""
    return [] if "\0" in path or ".." in path.split("/") else locate(access, path)


def _readable(location: kind.SourceLocation) -> kind.SourceLocation | None:
    """The location if it can be read, else None."""
    return location if location.resolve is None else location.resolve()
