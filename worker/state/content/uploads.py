"""Turns the files of an upload into nodes, in one transaction, so that no reader sees a part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.types.json import Jsonb

from schemas.content.node import Refused
from worker.state.access import acl
from worker.state.content import nodes, orphans
from worker.state.index import changes, index_switch
from worker.state.pool import Pool, again_if_locked
from worker.state.queries import load

_SQL = load("content/uploads")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file whose bytes are stored under `key`; `path` has its folders and name, relative to the upload's folder."""

    path: Path
    type: str
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class SavedFile:
    """The node that a file became, or the reason why it was refused."""

    node_id: str | None
    is_new: bool = False
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class _UploadNode:
    id: str | None
    id_path: str
    type: str
    object_key: str | None = None


@dataclass(frozen=True, slots=True)
class _UploadRow:
    """A node as an upload writes it; its version grows by `versions`."""

    project_id: str
    id: str | None
    id_path: str
    parent_id: str | None
    name: str
    type: str
    object_key: str | None
    size: int
    versions: int
    metadata: Jsonb | None = None
    own_acl: int | None = None

    @property
    def is_too_deep(self) -> bool:
        return len(self.id_path.encode()) > nodes.MAX_ID_PATH


@dataclass(slots=True)
class _UploadTree:
    """The nodes that an upload finds and creates; `missing` has the reason for each unavailable folder."""

    connection: Connection[Any]
    project_id: str
    folders: dict[Path, _UploadNode]
    missing: dict[Path, Refused] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)

    def find(self, paths: Sequence[Path], *, folder: bool) -> dict[Path, _UploadNode]:
        """Return the nodes that already exist at these paths; their parent folders must be known."""
        places = {"parents": [self.folders[path[:-1]].id for path in paths], "names": [path[-1] for path in paths]}
        values = {**places, "project_id": self.project_id, "folder": folder}
        rows = self.connection.execute(_SQL["children"], values).fetchall() if paths else ()
        return {paths[place - 1]: _UploadNode(*rest) for place, *rest in rows}

    def row(
        self, path: Path, node: _UploadNode | None, type_: str, key: str | None = None, size: int = 0, versions: int = 1
    ) -> _UploadRow:
        """Build the row of a node, or of a new one if there is none."""
        parent, id_ = self.folders[path[:-1]], str(uuid4())
        node = node or _UploadNode(id_, f"{parent.id_path}/{id_}", type_)
        return _UploadRow(self.project_id, node.id, node.id_path, parent.id, path[-1], type_, key, size, versions)

    def write(self, query: str, rows: Sequence[_UploadRow]) -> None:
        """Insert or update nodes."""
        with self.connection.cursor() as cursor:
            cursor.executemany(_SQL[query], map(asdict, rows))
        self.touched += [row.id_path for row in rows]


@again_if_locked
def save(
    pool: Pool,
    project_id: str,
    parent_id: str | None,
    received: Sequence[ReceivedFile],
    unused_keys: Sequence[str] = (),
    metadata: Mapping[str, object] | None = None,
    access: Sequence[str] | None = None,
) -> tuple[list[SavedFile], list[str]]:
    """Save an upload. Returns the result for each file, and the keys of objects that no node refers to.

    `unused_keys` were announced for files that did not arrive. Folders are created from names. A name that already
    exists gets a new version, and so does a name that occurs twice. Each file gets the `metadata` and the list
    `access`; None keeps the file's own. Raises `NotFound` for the folder, `Invalid` for it or for too much metadata,
    and `Conflict` if the upload took so long that it was given up.
    """
    with pool.connection() as connection:
        index_switch.lock_project(connection, project_id)
        root = _UploadNode(parent_id, nodes.folder_path(connection, project_id, parent_id), "folder")
        tree = _UploadTree(connection, project_id, {(): root})
        _make_folders(tree, [file.path[:-1] for file in received])
        own_acl = nodes.own_acl(connection, project_id, access)
        saved, unused = _save_files(tree, received, metadata, own_acl)
        revokes = own_acl is not None and any(file.node_id and not file.is_new for file in saved)
        if metadata is not None or revokes:
            acl.note_change(connection, project_id, revokes=revokes)
        written = {"project_id": project_id, "id_paths": tree.touched}
        sizes = connection.execute(_SQL["sizes"], written).fetchall()
        nodes.note_sizes(connection, project_id, [size for (size,) in sizes])
        changes.pass_on_change(connection, project_id, tree.touched)
        orphans.take_back(connection, unused_keys)
        return saved, unused


def _make_folders(tree: _UploadTree, folders: Iterable[Path]) -> None:
    """Create folders level by level, with one set of queries per level."""
    paths = {path[:depth] for path in folders for depth in range(1, len(path) + 1)}
    for depth in range(1, max(map(len, paths), default=0) + 1):
        level = sorted(path for path in paths if len(path) == depth)
        tree.missing |= {path: tree.missing[path[:-1]] for path in level if path[:-1] in tree.missing}
        open_ = [path for path in level if path not in tree.missing]
        existing = tree.find(open_, folder=True)
        created = []
        for path in open_:
            node = existing.get(path)
            row = tree.row(path, node, "folder")
            if node and node.type != "folder":
                tree.missing[path] = Refused.NOT_A_FOLDER
            elif not node and row.is_too_deep:
                tree.missing[path] = Refused.TOO_DEEP
            else:
                tree.folders[path] = _UploadNode(row.id, row.id_path, "folder")
                created += [] if node else [row]
        tree.write("insert", created)


def _save_files(
    tree: _UploadTree,
    received: Sequence[ReceivedFile],
    metadata: Mapping[str, object] | None,
    own_acl: int | None,
) -> tuple[list[SavedFile], list[str]]:
    versions: dict[Path, list[int]] = defaultdict(list)
    for number, file in enumerate(received):
        versions[file.path].append(number)
    existing = tree.find([path for path in versions if path[:-1] in tree.folders], folder=False)
    saved: dict[int, SavedFile] = {}
    new, changed, replaced = [], [], []
    for path, numbers in versions.items():
        file, node = received[numbers[-1]], existing.get(path)
        refused = tree.missing.get(path[:-1]) or (Refused.IS_FOLDER if node and node.type == "folder" else None)
        row = None if refused else tree.row(path, node, file.type, file.key, file.size, len(numbers))
        row = row and replace(row, metadata=None if metadata is None else Jsonb(dict(metadata)), own_acl=own_acl)
        if row and not node and row.is_too_deep:
            row, refused = None, Refused.TOO_DEEP
        if row and node:
            changed.append(row)
            replaced += [node.object_key] if node.object_key else []
        elif row:
            new.append(row)
        for number in numbers:
            is_new = row is not None and node is None and number == numbers[0]
            saved[number] = SavedFile(row.id if row else None, is_new, refused)
    used = [row.object_key for row in (*new, *changed) if row.object_key]
    orphans.claim(tree.connection, used)
    tree.write("insert", new)
    tree.write("update", changed)
    orphans.leave(tree.connection, replaced)
    unused = {file.key for file in received} - {*used}
    return [saved[number] for number in range(len(received))], [*replaced, *sorted(unused)]
