"""The unindexed files that a caller may read, by the lists of nodes and by the rules of tools over folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from api.http.sight import SeenIndex
from api.search.text.visibility import admitted_paths, ids_of, visible_files, visible_nodes
from schemas.content.acl import Sight
from schemas.content.document import SourceEntry
from worker.sources import kind
from worker.sources.nodes import NODES
from worker.state.pool import Pool
from worker.state.search import symbols


@dataclass(frozen=True, slots=True)
class SeenTool:
    """A tool and the index it answers from, as the caller sees it."""

    tool_id: UUID
    name: str
    index: SeenIndex


@dataclass(frozen=True, slots=True)
class RuledFolder:
    """The folder at `root` of a tool whose rules have lists. `prefix` turns id paths of its files into addresses."""

    root: str
    prefix: str
    index: SeenIndex

    def path_of(self, address: str) -> str | None:
        """The path of an address in this folder; None outside, "" for the folder itself."""
        if not is_within(address, self.root):
            return None
        return address.removeprefix(self.prefix if address != self.root else address).strip("/")


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """The unindexed files that one request may read. Nodes below a ruled folder are hidden until a run lists them."""

    pool: Pool
    project_id: str
    sight: Sight
    ruled: Sequence[RuledFolder] = ()

    def shown(self, locations: Sequence[kind.SourceLocation]) -> list[kind.SourceLocation]:
        """The locations without those that are hidden, or that only hold hidden files by the rules of a tool."""
        if self.sight.is_whole:
            return list(locations)
        of_nodes = {node: place for place in locations if (node := place.source.content_node) is not None}
        visible = visible_nodes(self.pool, self.project_id, self.sight, of_nodes) if of_nodes else set()
        return [
            location
            for location in locations
            if location.source.content_node is None or location.source.content_node in visible
            if self._has_any(location)
        ]

    def _has_any(self, location: kind.SourceLocation) -> bool:
        node = location.source.content_node
        for folder in self.ruled:
            path = folder.path_of(location.address)
            if not path:
                continue
            visible = visible_files(self.pool, folder.index)
            if location.key is not None and node is not None:
                if visible is not None and node not in visible.node_ids:
                    return False
            elif node is None and not symbols.has_path(self.pool, folder.index.id, path, ids_of(visible)):
                return False
        return True

    def of_page(self, entries: Sequence[SourceEntry], prefix: str) -> Iterator[SourceEntry]:
        """The entries of a listing without hidden ones. `prefix` turns their id paths into addresses."""
        if self.sight.is_whole:
            yield from entries
            return
        nodes = [entry.node_id for entry in entries if entry.node_id is not None] if prefix == NODES else []
        visible = visible_nodes(self.pool, self.project_id, self.sight, nodes) if nodes else set()
        tests = list(map(self._test, self.ruled))
        for entry in entries:
            if prefix == NODES and entry.node_id not in visible:
                continue
            if all(admits(prefix + entry.id_path, entry.node_id) for admits in tests):
                yield entry

    def _test(self, folder: RuledFolder) -> Callable[[str, str | None], bool]:
        """Whether the rules of a folder's tool admit the caller to a file, by its address and the id of its node."""
        of_nodes = folder.prefix == NODES
        visible = visible_files(self.pool, folder.index) if of_nodes else None
        admits = None if of_nodes else admitted_paths(folder.index)

        def is_admitted(address: str, node_id: str | None) -> bool:
            path = folder.path_of(address)
            if path is None:
                return True
            return (visible is None or node_id in visible.node_ids) and (admits is None or admits(path))

        return is_admitted


def is_within(address: str, folder: str) -> bool:
    """Whether an address is that of a folder, or of what lies in it."""
    return address == folder or address.startswith(folder + "/")
