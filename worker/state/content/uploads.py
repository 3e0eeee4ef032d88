"""Turns the files of an upload into nodes, in one transaction, so that no reader sees a part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from psycopg import Connection

from schemas.content.node import Refused
from worker.state.content import nodes, orphans
from worker.state.index import changes, index_switch
from worker.state.pool import Pool, again_if_locked
from worker.state.queries import load

_SQL = load("content/uploads")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file whose bytes are stored under `key`; `path` holds its folders and its name, below the upload's folder."""

    path: Path
    type: str
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class SavedFile:
    """The node that a file became, or why it was refused."""

    node_id: str | None
    is_new: bool = False
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class _UploadNode:
    id: str | None
    id_path: str
    type: str
    object_key: str | None = None


@dataclass(slots=True)
class _UploadTree:
    """What an upload finds and creates below its folder; `missing` says why a folder is unavailable."""

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

    def new_node(self, path: Path, type_: str, **columns: Any) -> dict[str, Any]:
        """Build the row of a new node."""
        parent, id_ = self.folders[path[:-1]], str(uuid4())
        row = {"project_id": self.project_id, "id": id_, "parent_id": parent.id, "name": path[-1], "type": type_}
        return {"object_key": None, "size": 0, "versions": 1, **row, "id_path": f"{parent.id_path}/{id_}", **columns}

    def write(self, query: str, rows: Sequence[dict[str, Any]]) -> None:
        """Insert or update nodes."""
        with self.connection.cursor() as cursor:
            cursor.executemany(_SQL[query], rows)
        self.touched += [row["id_path"] for row in rows]


@again_if_locked
def save(
    pool: Pool,
    project_id: str,
    parent_id: str | None,
    received: Sequence[ReceivedFile],
    unused_keys: Sequence[str] = (),
) -> tuple[list[SavedFile], list[str]]:
    """Save an upload. Returns what each file became, and the keys of objects that no node refers to.

    `unused_keys` were announced for files that did not arrive. Folders are created from names. A name that already
    exists gets a new version, and so does a name that occurs twice. Raises `NotFound` and `Invalid` for the folder, and
    `Conflict` if the upload took so long that it was given up.
    """
    with pool.connection() as connection:
        index_switch.lock_project(connection, project_id)
        root = _UploadNode(parent_id, nodes.folder_path(connection, project_id, parent_id), "folder")
        tree = _UploadTree(connection, project_id, {(): root})
        _make_folders(tree, [file.path[:-1] for file in received])
        saved, unused = _save_files(tree, received)
        changes.nodes_changed(connection, project_id, tree.touched)
        orphans.take_back(connection, unused_keys)
        return saved, unused


def _make_folders(tree: _UploadTree, folders: Iterable[Path]) -> None:
    """Create folders level by level, so that there are only as many queries as levels."""
    paths = {path[:depth] for path in folders for depth in range(1, len(path) + 1)}
    for depth in range(1, max(map(len, paths), default=0) + 1):
        level = sorted(path for path in paths if len(path) == depth)
        tree.missing |= {path: tree.missing[path[:-1]] for path in level if path[:-1] in tree.missing}
        open_ = [path for path in level if path not in tree.missing]
        existing = tree.find(open_, folder=True)
        created = []
        for path in open_:
            node = existing.get(path)
            row = None if node else tree.new_node(path, "folder")
            if node and node.type != "folder":
                tree.missing[path] = Refused.NOT_A_FOLDER
            elif row and _too_deep(row):
                tree.missing[path] = Refused.TOO_DEEP
            else:
                tree.folders[path] = node or _UploadNode(row["id"], row["id_path"], "folder")  # type: ignore[index] # one of both
                created += [row] if row else []
        tree.write("insert", created)


def _save_files(tree: _UploadTree, received: Sequence[ReceivedFile]) -> tuple[list[SavedFile], list[str]]:
    versions: dict[Path, list[int]] = defaultdict(list)
    for number, file in enumerate(received):
        versions[file.path].append(number)
    existing = tree.find([path for path in versions if path[:-1] in tree.folders], folder=False)
    saved: dict[int, SavedFile] = {}
    new, changed, replaced = [], [], []
    for path, numbers in versions.items():
        file, node = received[numbers[-1]], existing.get(path)
        stored = {"object_key": file.key, "size": file.size, "versions": len(numbers), "type": file.type}
        refused = tree.missing.get(path[:-1]) or (Refused.IS_FOLDER if node and node.type == "folder" else None)
        row: dict[str, Any] = {}
        if node and not refused:
            row = {**stored, "project_id": tree.project_id, "id": node.id, "id_path": node.id_path}
            changed.append(row)
            replaced += [node.object_key] if node.object_key else []
        elif not refused:
            row = tree.new_node(path, file.type, **{key: stored[key] for key in ("object_key", "size", "versions")})
            refused = Refused.TOO_DEEP if _too_deep(row) else None
            new += [] if refused else [row]
        for number in numbers:
            is_new = node is None and number == numbers[0]
            saved[number] = SavedFile(None, refused=refused) if refused else SavedFile(row["id"], is_new)
    used = [row["object_key"] for row in (*new, *changed)]
    orphans.claim(tree.connection, used)
    tree.write("insert", new)
    tree.write("update", changed)
    orphans.leave(tree.connection, replaced)
    unused = {file.key for file in received} - {*used}
    return [saved[number] for number in range(len(received))], [*replaced, *sorted(unused)]


def _too_deep(row: dict[str, Any]) -> bool:
    return len(row["id_path"].encode()) > nodes.MAX_ID_PATH
