"""Nodes of the project's content tree (`content_node`): a folder with everything below it, or a single node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow, class_row

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import NodesSource
from schemas.errors import FileError, FolderGone, Invalid, SourceUnavailable
from schemas.reason import Reason
from worker.ignore import EVERYTHING, IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.objects.object_store import ObjectStore
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.texts import json_text
from worker.sources.flat_listing import LAST, filter_files
from worker.sources.kind import ContentAccess, IndexedTarget, SourceLocation, WatchAccess
from worker.sources.watching.node_watch import NodesWatch
from worker.state.content import nodes
from worker.state.index.changes import WatchedIndex
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Number of nodes of one page.
PAGE_SIZE = 1000

#: A slash within a name would look like another folder level. This character only looks like one.
SLASH_IN_NAME = "\N{DIVISION SLASH}"

#: Prefix of the address of a node; its id path follows.
NODES = "node:"

_SQL = load("content/listing")

Row = TypeVar("Row")
Database = Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class _ListedNode:
    id: str
    id_path: str
    name: str
    type: str
    size_bytes: int
    version: int
    created: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class _NodeName:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    id: str
    folder: str
    name: str


@dataclass(frozen=True, slots=True)
class _StoredContent:
    type: str
    object_key: str | None
    json_bytes: int | None
    json_text: str | None
    version: int
    created: int


class NodesKind:
    """Nodes of the project's own content tree, which need no grant."""

    def open(self, access: ContentAccess, source: NodesSource, rules: Rules) -> NodeTree:
        """See `SourceKind`."""
        return NodeTree(access.pool(), access.objects(), access.helpers, source.node_id, rules)

    def target(self, access: ContentAccess, source: NodesSource) -> IndexedTarget:
        """See `SourceKind`."""
        node = nodes.get(access.pool(), access.project_id, source.node_id)
        if source.json_pointer is not None and node.type != "json":
            raise Invalid("json_pointer needs a json node, and this is not one; omit it, or choose a json node.")
        return IndexedTarget(source.node_id if node.type == "folder" else None, node.name)

    def address_prefix(self, _address: str | None) -> str:
        """See `SourceKind`."""
        return NODES

    def addresses(self, access: ContentAccess, sources: Sequence[NodesSource]) -> list[str | None]:
        """See `SourceKind`."""
        paths_by_id = nodes.id_paths(access.pool(), access.project_id, [source.node_id for source in sources])
        id_paths = [None if source.json_pointer else paths_by_id.get(source.node_id) for source in sources]
        return [None if id_path is None else NODES + id_path for id_path in id_paths]

    def locate(self, access: ContentAccess, path: str) -> list[SourceLocation]:
        """Locate nodes, as `SourceKind` says. Several nodes may have one path."""
        found = nodes.find(access.pool(), access.project_id, path.rstrip("/"), SLASH_IN_NAME)
        return [_location(node) for node in found]

    def watch(self, access: WatchAccess, _source: NodesSource, index: WatchedIndex) -> NodesWatch:
        """See `SourceKind`."""
        return NodesWatch(access.content.pool, index.id)


def _location(node: nodes.FoundNode) -> SourceLocation:
    key = None if node.type == "folder" else node.id.encode()
    return SourceLocation(NODES + node.id_path, NodesSource(node_id=node.id), key)


class NodeTree:
    """A source over one node of a project. Ids contain no slash, so an `id_path` splits into the ids of its nodes."""

    def __init__(
        self,
        pool: Pool,
        objects: ObjectStore,
        helpers: ProjectHelpers,
        node_id: str,
        rules: Rules = EVERYTHING,
        *,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._pool = pool
        self._objects = objects
        self._helpers, self._project_id = helpers, helpers.project_id
        self._node_id = node_id
        self._page_size = page_size
        self._trail: Trail[str] = Trail(rules, self._name_of, self._ignore_files)
        #: The paths of the only nodes to list, none below another one; None for all.
        self._tops: Sequence[str] | None = None
        # For the folders above the current nodes: their names and the nodes of their ignore files.
        self._folder_names: dict[str, str] = {}
        self._ignore_nodes: dict[str, list[tuple[str, str]]] = {}

    def check(self) -> None:
        """See `Source`."""
        with _connection(self._pool) as database:
            self._root(database)

    def list(self, cursor: str | None) -> ListingPage:
        """List a page, as `Source` says. A cursor is an id path below the root, so the root may move between pages.

        It is the last path listed, or one past an excluded folder. No rule applies to a single node.
        """
        if cursor is None:
            self._trail.forget()
        with _connection(self._pool) as database:
            root = self._root(database)
            if root.type != "folder":
                return ListingPage([_entry(root, _shown(root.name, root.id))], None)
            nodes = self._descendants(database, root, cursor)
            above = _ids(cursor or "/")[:-1]
            self._load_folders(database, {*above, *(folder for node in nodes for folder in _folders(root, node))})
        files = ((_folders(root, node), _shown(node.name, node.id), node) for node in nodes)
        kept, ignored = filter_files(self._trail, files, above if cursor else None)
        entries = [_entry(node, _path(root, node, self._folder_names)) for node in kept]
        more = len(nodes) == self._page_size
        return ListingPage(entries, self._next(root, nodes[-1]) if more else None, ignored=ignored)

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """Narrow by node ids, which a move does not change. An ignore file affects its whole folder."""
        ids = [key.decode() for key in keys]
        with _connection(self._pool) as database:
            root = self._root(database)
            values = {"project_id": self._project_id, "root": root.id_path, "ids": ids, "names": list(IGNORE_FILES)}
            found = [id_path for (id_path,) in database.execute(_SQL["find_tops"], values).fetchall()]
        if root.type != "folder" or root.id_path in found:
            return None
        tops: list[str] = []
        for id_path in sorted(found, key=_ids):
            if not tops or not id_path.startswith(tops[-1] + "/"):
                tops.append(id_path)
        self._tops = tops
        return [id_.encode() for id_ in {*ids, *(_ids(top)[-1] for top in tops)}]

    def leaves_out(self, key: bytes) -> bool:
        """Return whether rules leave out a node, as `Source` says. False for a node that no longer exists."""
        with _connection(self._pool) as database:
            root = self._root(database)
            rows = _rows(_ListedNode, database, "find_node", project_id=self._project_id, node_id=key.decode())
            if not rows or not rows[0].id_path.startswith(root.id_path + "/"):
                return False
            folders = _folders(root, rows[0])
            self._load_folders(database, set(folders))
        return bool(self._trail.pruned(folders) or self._trail.ignored(_shown(rows[0].name, rows[0].id)))

    def near(self) -> None:
        """See `Source`."""

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        """Read a node, as `Source` says. Inline JSON is returned in the form of a helper's `json_text`."""
        stored = self._stored(key, limit)
        try:
            return self._content(stored, limit)
        except FileError:
            # An upload changes the row and then deletes the old object, so this row may be outdated.
            latest = self._stored(key, limit)
            if latest.object_key == stored.object_key:
                raise
            return self._content(latest, limit)

    def _root(self, database: Database) -> _ListedNode:
        for node in _rows(_ListedNode, database, "find_node", project_id=self._project_id, node_id=self._node_id):
            return node
        raise FolderGone(f"The node {self._node_id!r} does not exist; choose an existing node.")

    def _descendants(self, database: Database, root: _ListedNode, cursor: str | None) -> Sequence[_ListedNode]:
        page = {"project_id": self._project_id, "page_size": self._page_size, "after": root.id_path + (cursor or "/")}
        if self._tops is None:
            return _rows(_ListedNode, database, "list_nodes", before=root.id_path + _AFTER_SLASH, **page)
        return _rows(_ListedNode, database, "list_below", tops=self._tops, **page)

    def _next(self, root: _ListedNode, last: _ListedNode) -> str:
        pruned = self._trail.pruned(_folders(root, last))
        return "/".join(("", *pruned[0], LAST)) if pruned else last.id_path.removeprefix(root.id_path)

    def _load_folders(self, database: Database, folders: set[str]) -> None:
        """Load the names and ignore files of these folders and of the root."""
        ids = [*folders, self._node_id]
        named = _rows(_NodeName, database, "name_nodes", project_id=self._project_id, ids=ids)
        self._folder_names = {folder.id: _shown(folder.name, folder.id) for folder in named}
        names = list(IGNORE_FILES)
        files = _rows(_IgnoreFile, database, "find_ignore_files", project_id=self._project_id, ids=ids, names=names)
        self._ignore_nodes = defaultdict(list)
        for file in sorted(files, key=lambda file: (IGNORE_FILES.index(file.name), file.id)):
            self._ignore_nodes[file.folder].append((file.name, file.id))

    def _name_of(self, folder: str) -> str:
        return self._folder_names.get(folder, folder)

    def _ignore_files(self, folders: tuple[str, ...]) -> Iterator[IgnoreFile]:
        for name, node_id in self._ignore_nodes.get(folders[-1] if folders else self._node_id, ()):
            try:
                yield name, self.read(node_id.encode(), MAX_IGNORE_FILE).data
            except FileError as failure:
                yield name, b"" if failure.reason is Reason.EMPTY else None

    def _stored(self, key: bytes, limit: int) -> _StoredContent:
        with _connection(self._pool) as database:
            node = {"project_id": self._project_id, "node_id": key.decode(), "root_id": self._node_id}
            for stored in _rows(_StoredContent, database, "read_node", limit=limit, **node):
                return stored
        raise FileError(Reason.UNREADABLE, "The node no longer exists; index again.")

    def _content(self, stored: _StoredContent, limit: int) -> FileContent:
        if stored.type == "folder":
            raise FileError(Reason.NOT_A_FILE, "The node has become a folder; index again.")
        if stored.json_bytes is not None:
            if stored.json_text is None:
                raise FileError(Reason.TOO_LARGE)
            return FileContent(json_text(self._helpers, stored.json_text, limit), _stamp(stored), _type(stored))
        if stored.object_key is None:
            raise FileError(Reason.EMPTY)
        return FileContent(self._objects.get(stored.object_key, limit), _stamp(stored), _type(stored))


#: The character after "/" in sort order: every path below a folder sorts before the folder's path plus this character.
_AFTER_SLASH = "0"


def _stamp(node: _ListedNode | _StoredContent) -> str:
    # Versions restart at 1 when a node is deleted and recreated under the same id; the creation time changes.
    return f"v{node.version}-{node.created}"


def _entry(node: _ListedNode, path: str) -> SourceEntry:
    return SourceEntry(
        key=node.id.encode(),
        path=path,
        id_path=node.id_path,
        node_id=node.id,
        size=node.size_bytes,
        stamp=_stamp(node),
        type=_type(node),
        mtime_ms=node.mtime_ms,
    )


def _type(node: _ListedNode | _StoredContent) -> str | None:
    # The type of an uploaded file is derived from its name.
    return None if node.type == "file" else node.type


def _folders(root: _ListedNode, node: _ListedNode) -> tuple[str, ...]:
    return _ids(node.id_path.removeprefix(root.id_path))[:-1]


def _ids(id_path: str) -> tuple[str, ...]:
    return tuple(id_path.removeprefix("/").split("/"))


def _path(root: _ListedNode, node: _ListedNode, names: dict[str, str]) -> str:
    folders = [names.get(folder, folder) for folder in _folders(root, node)]
    return "/".join([*folders, _shown(node.name, node.id)])


def _shown(name: str, node_id: str) -> str:
    return name.replace("/", SLASH_IN_NAME) or node_id


def _rows(kind: type[Row], database: Database, query: str, **values: Any) -> Sequence[Row]:
    return database.cursor(row_factory=class_row(kind)).execute(_SQL[query], values).fetchall()


@contextmanager
def _connection(pool: Pool) -> Iterator[Database]:
    try:
        # for each file a transaction would take longer than the statement
        with autocommit(pool) as connection:
            yield connection
    except OperationalError as error:
        raise SourceUnavailable("The database of content nodes did not answer; Foldex will try again.") from error
