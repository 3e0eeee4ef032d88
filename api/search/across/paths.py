"""Resolves the paths of a request, and finds the indexes that cover them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from pydantic import ValidationError

from schemas.errors import FileError, FilterMatchesNothing, SourceError
from schemas.source import AnySource, LocalSource, NodesSource, S3Source
from schemas.status import Reason
from worker.machine.paths import real_path
from worker.resources import Resources
from worker.sources.nodes import SLASH_IN_NAME
from worker.state.content import nodes
from worker.state.index import chunks, files
from worker.state.index.tools import Index, Searchable

#: Prefixes of addresses. A node's address ends in its id path, an object's is its URL, a file's its resolved path.
NODES, S3 = "node:", "s3://"


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder at a requested path. `key` is a single file's key in `source`, None for a folder.

    `covered` lists the addresses below it that tools search.
    """

    asked: str
    address: str
    source: AnySource
    key: bytes | None
    covered: tuple[str, ...] = ()

    def is_covered(self, address: str) -> bool:
        """Whether a tool searches this file below the place."""
        return any(_is_within(address, root) for root in self.covered)


@dataclass(frozen=True, slots=True)
class Route:
    """A tool to search, restricted to files and folders by `file_id_path`; None: all of its files."""

    tool: Searchable
    id_paths: frozenset[str] | None


def routed(
    resources: Resources, project_id: str, paths: Iterable[str], tools: Sequence[Searchable]
) -> tuple[list[Route], list[Place]]:
    """For each path, find the most specific tool that has text there. Also returns the places no tool covers whole.

    In such a folder, tools over folders below it search those. `tools` come newest first; among tools over the same
    folder the newest wins. Raises `SourceUnavailable`, and `FilterMatchesNothing`, which names all paths that are
    missing, closed or another project's.
    """
    rooted = _rooted(resources, project_id, tools)
    routes: dict[UUID, Route] = {}
    uncovered, missing = [], []
    for path in paths:
        found = [(place, _route(resources, place, rooted)) for place in _places(resources, project_id, path)]
        for route in (route for _, route in found if route is not None):
            routes[route.tool.tool_id] = _joined(routes.get(route.tool.tool_id), route)
        others = [_readable(resources, project_id, place) for place, route in found if route is None]
        for place in (place for place in others if place is not None):
            inside = _inside(resources, place, rooted)
            routes |= {tool.tool_id: Route(tool, None) for tool in inside.values()}
            uncovered.append(replace(place, covered=tuple(inside)))
        if not found or None in others:
            missing.append(path)
    if missing:
        named = ", ".join(map(repr, missing))
        raise FilterMatchesNothing(
            f"Nothing can be read at {named}; check the paths, the project and the source roots."
        )
    return list(routes.values()), list({place.address: place for place in uncovered}.values())


def _rooted(resources: Resources, project_id: str, tools: Sequence[Searchable]) -> list[tuple[str, Searchable]]:
    """Tools with the addresses of their folders, longest address first."""
    folder_nodes = [tool.index.source["node_id"] for tool in tools if tool.index.source["kind"] == "nodes"]
    ids = nodes.id_paths(resources.pool, project_id, folder_nodes)
    rooted = [(root, tool) for tool in tools if (root := _root(tool.index, ids)) is not None]
    return sorted(rooted, key=lambda each: -len(each[0]))


def before_ids(index: Index) -> str:
    """The prefix that turns the id path of an index's file into an address."""
    source = index.source
    if source["kind"] == "local":
        return real_path(str(source["path"])).rstrip("/")
    return NODES if source["kind"] == "nodes" else f"{S3}{source['bucket']}/{source['prefix']}".rstrip("/")


def _root(index: Index, id_paths: Mapping[str, str]) -> str | None:
    """The address of an index's folder; None if its node is gone, or if the index has only a part of the node."""
    source = index.source
    if source["kind"] != "nodes":
        return before_ids(index)
    id_path = id_paths.get(source["node_id"])
    return None if id_path is None or source["json_pointer"] else NODES + id_path


def _route(resources: Resources, place: Place, rooted: Sequence[tuple[str, Searchable]]) -> Route | None:
    for root, tool in rooted:
        if _is_within(place.address, root):
            id_path = place.address.removeprefix(before_ids(tool.index))
            if files.below(resources.pool, tool.index.id, id_path, limit=1):
                return Route(tool, None if place.address == root else frozenset([id_path]))
    return None


def _inside(resources: Resources, place: Place, rooted: Sequence[tuple[str, Searchable]]) -> dict[str, Searchable]:
    """The outermost tools with text of folders below a place, by the address of their folder."""
    inside: dict[str, Searchable] = {}
    for root, tool in sorted(rooted, key=lambda each: len(each[0])):
        apart = not any(_is_within(root, other) for other in inside)
        if apart and _is_within(root, place.address) and chunks.any_live(resources.pool, tool.index.id):
            inside[root] = tool
    return inside


def _is_within(address: str, folder: str) -> bool:
    return address == folder or address.startswith(folder + "/")


def _joined(held: Route | None, route: Route) -> Route:
    if held is None:
        return route
    if held.id_paths is None or route.id_paths is None:
        return Route(route.tool, None)
    return Route(route.tool, held.id_paths | route.id_paths)


def _places(resources: Resources, project_id: str, path: str) -> list[Place]:
    """What is at a path. For a bucket, its existence is not checked yet."""
    if "\0" in path or ".." in path.split("/"):
        return []
    if path.startswith(S3):
        return _objects(path)
    return _local(resources, project_id, path) or _nodes(resources, project_id, path)


def _local(resources: Resources, project_id: str, path: str) -> list[Place]:
    if not path.startswith("/"):
        return []
    # resolved, so that `check` detects paths outside of the roots
    try:
        real = real_path(path)
        # missing paths take the same steps as ungranted ones, so that timing does not tell them apart
        folder, name = os.path.split(real) if _is_file(real) else (real, "")
        source = LocalSource(kind="local", path=folder)
        resources.source(project_id, source).check()
    except OSError:
        return []
    except (SourceError, ValidationError) as error:
        _pass_on(error)
        return []
    return [Place(path, real.rstrip("/"), source, os.fsencode(name) or None)]


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def _nodes(resources: Resources, project_id: str, path: str) -> list[Place]:
    rows = nodes.at(resources.pool, project_id, path.rstrip("/"), SLASH_IN_NAME)
    return [_node(path, row) for row in rows]


def _node(path: str, row: nodes.Row) -> Place:
    is_folder = row["type"] == "folder"
    source = NodesSource(node_id=row["id"])
    return Place(path, NODES + row["id_path"], source, None if is_folder else row["id"].encode())


def _objects(url: str) -> list[Place]:
    bucket, _, prefix = url.removeprefix(S3).rstrip("/").partition("/")
    try:
        source = S3Source(kind="s3", bucket=bucket, prefix=prefix)
    except ValidationError:
        return []
    return [Place(url, url.rstrip("/"), source, None)]


def _readable(resources: Resources, project_id: str, place: Place) -> Place | None:
    """The place if it can be read, else None. Finds out whether a bucket's place is a file or a folder."""
    if not isinstance(place.source, S3Source):
        return place
    above, _, name = place.source.prefix.rstrip("/").rpartition("/")
    file = replace(place, source=S3Source(kind="s3", bucket=place.source.bucket, prefix=above), key=name.encode())
    try:
        if resources.source(project_id, place.source).list(None).entries:
            return place
        resources.source(project_id, file.source).read(name.encode(), 0)
    except SourceError as error:
        _pass_on(error)
        return None
    except FileError as error:
        return file if error.reason is Reason.TOO_LARGE else None
    return file


def _pass_on(error: Exception) -> None:
    """Raise an error again if it is not the path's fault."""
    if isinstance(error, SourceError) and error.retryable:
        raise error
