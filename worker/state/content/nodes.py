"""Rows of `content_node`: folders and files of a project's own content tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID

from psycopg import Connection, DataError
from psycopg.errors import ProgramLimitExceeded
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from schemas.content.acl import EVERYTHING, Sight
from schemas.content.node import Node
from schemas.errors import Conflict, Invalid, NotFound
from schemas.fields import HIDDEN
from worker.formats.by_name import stated_type
from worker.state.access import acl
from worker.state.content import orphans
from worker.state.index import changes, index_switch
from worker.state.pool import Pool, again_if_locked, autocommit
from worker.state.queries import load

#: Maximum bytes of the ids from the root to a node: an index row of Postgres holds at most about 2,700.
MAX_ID_PATH = 2_000

#: Maximum bytes of a node's metadata with its folders', as Postgres shows them: each hit includes them.
MAX_WITH_INHERITED = 32 << 10

#: Maximum number of projects per pass that deletes unused access lists.
MAX_PROJECTS = 100

#: Maximum number of a caller's access lists for which a page reads each list's nodes. With more, it passes over hidden
#: nodes.
MAX_LISTS_READ = 5_001

#: Represents the access list of a node that has none.
NO_LIST = 0

#: Bytes of a value above which its connection is not reused.
MAX_BUFFER = 1 << 20

_SQL = load("content/nodes")


class NodeRow(Node):
    """A node, and where its content is: in the object store, or as JSON in its row, whose text `with_json` reads."""

    object_key: Annotated[str | None, HIDDEN] = None
    json_text: Annotated[str | None, HIDDEN] = None


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node at a path."""

    id: str
    id_path: str
    type: str


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The content in a node's row: JSON as text, or the key of an object."""

    json: str | None = None
    object_key: str | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to insert."""

    id: str
    parent_id: str | None
    name: str
    type: str
    url: str | None = None
    metadata: Mapping[str, object] | None = None
    acl: Sequence[str] | None = None


def get(pool: Pool, project_id: str, node_id: str, sight: Sight = EVERYTHING) -> NodeRow:
    """Return a node without its inline JSON. Raises `NotFound`."""
    with pool.connection() as connection:
        return _get(connection, project_id, node_id, sight=sight)


def with_json(pool: Pool, project_id: str, node_id: str, sight: Sight = EVERYTHING) -> NodeRow:
    """Return a node with the text of its inline JSON. Raises `NotFound`."""
    with pool.connection() as connection:
        row = _get(connection, project_id, node_id, "with_json", sight)
        _drop_large_connection(connection, row.size)
    return row


def is_json(pool: Pool, text: bytes) -> bool:
    """Return whether Postgres accepts a text as JSON."""
    try:
        with pool.connection() as connection:
            connection.execute(_SQL["check_json"], {"text": text.decode()})
            _drop_large_connection(connection, len(text))
    except (DataError, ProgramLimitExceeded, UnicodeDecodeError):
        return False
    return True


def page(
    pool: Pool,
    project_id: str,
    parent_id: str | None,
    *,
    after: tuple[str, str] | None,
    limit: int,
    sight: Sight = EVERYTHING,
) -> list[NodeRow]:
    """List the visible nodes of a folder (None: the top level) by name and id. Raises as `folder_path` does."""
    name, id_ = after or (None, None)
    place = {"project_id": project_id, "parent_id": parent_id, "after_name": name, "after_id": id_}
    with pool.connection() as connection:
        folder_path(connection, project_id, parent_id, sight)
        lists = None
        if sight.principals is not None:
            lists = [NO_LIST, *acl.readable_over(connection, project_id, sight.principals)]
        query = _SQL["page" if lists is None or len(lists) > MAX_LISTS_READ else "page_of_classes"]
        values = {**place, "classes": lists, "limit": limit}
        # planned each time: a generic plan for all folders does not use the index
        return connection.cursor(row_factory=class_row(NodeRow)).execute(query, values, prepare=False).fetchall()


def find(pool: Pool, project_id: str, path: str, slash: str) -> list[FoundNode]:
    """Return the node at a path of ids, otherwise the nodes at a path of names, in which `slash` replaces a slash."""
    names = path.removeprefix("/").split("/")
    values = {"project_id": project_id, "path": path, "names": names, "slash": slash}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(FoundNode))
        return cursor.execute(_SQL["at_ids"], values).fetchall() or cursor.execute(_SQL["at_names"], values).fetchall()


def id_paths(pool: Pool, project_id: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the ids from the root down to each node, by node id."""
    with pool.connection() as connection:
        return dict(connection.execute(_SQL["id_paths"], {"project_id": project_id, "ids": list(ids)}).fetchall())


@again_if_locked
def insert(pool: Pool, project_id: str, node: NewNode, content: StoredContent, sight: Sight = EVERYTHING) -> NodeRow:
    """Insert a node, and return it as a caller sees it.

    Raises `NotFound` for its parent, `Conflict` for its id, and `Invalid` for its depth or too much metadata.
    """
    with pool.connection() as connection:
        index_switch.lock_project(connection, project_id)
        path = f"{folder_path(connection, project_id, node.parent_id)}/{node.id}"
        _check_depth(len(path.encode()))
        _claim(connection, content.object_key)
        values = {**asdict(node), **asdict(content), "project_id": project_id, "id_path": path}
        values |= {"metadata": as_jsonb(node.metadata), "own_acl": own_acl(connection, project_id, node.acl)}
        inserted = connection.execute(_SQL["insert"], values).fetchone()
        if inserted is None:
            raise Conflict(f"A node {node.id!r} already exists in this project; choose another id, or PATCH it.")
        note_sizes(connection, project_id, inserted)
        changes.pass_on_change(connection, project_id, [path])
        row = _get(connection, project_id, node.id, sight=sight)
        _drop_large_connection(connection, row.size if content.json else 0)
    return row


@dataclass(frozen=True, slots=True)
class NodeMove:
    """A node's new place: a new name, if any, and with `to_parent` a new parent (None: the root)."""

    name: str | None
    parent_id: str | None
    to_parent: bool


@dataclass(frozen=True, slots=True)
class NodeLink:
    """A node's new address on the web; None removes it."""

    url: str | None


@dataclass(frozen=True, slots=True)
class NodeMetadata:
    """A node's new metadata; None or nothing removes it."""

    values: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class NodeAcl:
    """A node's new access list; None removes it."""

    entries: Sequence[str] | None


@again_if_locked
def change(
    pool: Pool,
    project_id: str,
    node_id: str,
    place: NodeMove | None,
    content: StoredContent | None,
    link: NodeLink | None = None,
    metadata: NodeMetadata | None = None,
    access: NodeAcl | None = None,
) -> str | None:
    """Change a node in one transaction: its place, content, link, metadata and access list.

    Returns the key of the object that is no longer needed. Raises `NotFound`, and `Invalid` for a place where the node
    cannot be, or for too much metadata.
    """
    with pool.connection() as connection:
        index_switch.lock_project(connection, project_id)
        if place is not None:
            _move(connection, _get(connection, project_id, node_id), place)
        if link is not None:
            connection.execute(_SQL["set_url"], {"project_id": project_id, "id": node_id, "url": link.url})
        if metadata is not None:
            values = {"project_id": project_id, "id": node_id, "metadata": as_jsonb(metadata.values)}
            connection.execute(_SQL["set_metadata"], values)
        if access is not None:
            own = own_acl(connection, project_id, access.entries)
            connection.execute(_SQL["set_acl"], {"project_id": project_id, "id": node_id, "own_acl": own})
        moves = place is not None and place.to_parent
        if metadata is not None or access is not None or moves:
            _inherit(connection, project_id, node_id, revokes=access is not None or moves)
        unused = None if content is None else _set_content(connection, project_id, node_id, content)
        _drop_large_connection(connection, len(content.json or "") if content is not None else 0)
    return unused


def _inherit(connection: Connection[Any], project_id: str, node_id: str, *, revokes: bool) -> None:
    """Give a node and its descendants the metadata and access lists of the folders above."""
    largest = connection.execute(_SQL["inherit"], {"project_id": project_id, "id": node_id}).fetchone()
    size, has_other_list = largest or (0, False)
    note_sizes(connection, project_id, [size], revokes=revokes or has_other_list)


def listed_projects(pool: Pool, tool_id: UUID | None) -> list[str]:
    """Return the projects with access lists: a tool's project, or all."""
    with autocommit(pool) as connection:
        return [project for (project,) in connection.execute(_SQL["listed_projects"], {"tool_id": tool_id})]


def count(pool: Pool, project_id: str) -> int:
    """Return the number of a project's nodes."""
    with autocommit(pool) as connection:
        ((number,),) = connection.execute(_SQL["count_nodes"], {"project_id": project_id}).fetchall()
    return int(number)


@again_if_locked
def count_misfiled(pool: Pool, project_id: str, *, repair: bool) -> int:
    """Count the nodes whose access list is neither their own nor their folder's; with `repair`, correct these."""
    with pool.connection() as connection:
        if repair:
            index_switch.lock_project(connection, project_id)
        found = connection.execute(_SQL["misfiled"], {"project_id": project_id}).fetchall()
        for (node_id,) in found if repair else ():
            _inherit(connection, project_id, node_id, revokes=True)
    return len(found)


def forget_unused_lists(pool: Pool) -> int:
    """Delete the access lists that no node uses, in up to `MAX_PROJECTS` projects. Returns their number."""
    with autocommit(pool) as connection:
        found = connection.execute(_SQL["projects_with_unused_lists"], {"limit": MAX_PROJECTS}).fetchall()
    return sum(_forget_lists(pool, project_id) for (project_id,) in found)


@again_if_locked
def _forget_lists(pool: Pool, project_id: str) -> int:
    with pool.connection() as connection:
        # a change that gives such a list to a node ends before this, or begins after it
        index_switch.lock_project(connection, project_id)
        return connection.execute(_SQL["forget_lists"], {"project_id": project_id}).rowcount


def note_sizes(
    connection: Connection[Any], project_id: str, sizes: Iterable[int | None], *, revokes: bool = False
) -> None:
    """Record a change of nodes with these bytes of metadata, including inherited ones. See `note_change`.

    None: a node has neither metadata nor an access list. Raises `Invalid` if a node has too many bytes.
    """
    known = [size for size in sizes if size is not None]
    if max(known, default=0) > MAX_WITH_INHERITED:
        raise Invalid(
            f"With what its folders pass on, a node would have more than {MAX_WITH_INHERITED >> 10} KiB of metadata; "
            "leave keys out."
        )
    if known:
        acl.note_change(connection, project_id, revokes=revokes)


def own_acl(connection: Connection[Any], project_id: str, entries: Sequence[str] | None) -> int | None:
    """Return an access list as its column stores it."""
    return None if entries is None else acl.class_of(connection, project_id, entries)


def as_jsonb(metadata: Mapping[str, object] | None) -> Jsonb | None:
    """Return metadata as its column stores it."""
    return Jsonb(dict(metadata)) if metadata else None


def _set_content(connection: Connection[Any], project_id: str, node_id: str, content: StoredContent) -> str | None:
    old = _get(connection, project_id, node_id)
    _claim(connection, content.object_key)
    connection.execute(_SQL["set_content"], {**asdict(content), "project_id": project_id, "id": node_id})
    changes.pass_on_change(connection, project_id, [old.id_path])
    if old.object_key is not None:
        orphans.leave(connection, [old.object_key])
    return old.object_key


def type_as(node: NodeRow, name: str | None) -> str:
    """Return the type of a node after renaming: a type that came from the old name follows the new name."""
    if name is None or node.object_key is None or node.type != stated_type(node.name):
        return node.type
    return stated_type(name)


def _move(connection: Connection[Any], node: NodeRow, place: NodeMove) -> None:
    project_id, parent = node.project_id, place.parent_id if place.to_parent else node.parent_id
    path = f"{folder_path(connection, project_id, parent)}/{node.id}"
    if path.startswith(node.id_path + "/"):
        raise Invalid("A folder cannot be moved into itself; choose another parent.")
    values = {"project_id": project_id, "id": node.id, "name": place.name or node.name, "parent_id": parent}
    values["type"] = type_as(node, place.name)
    connection.execute(_SQL["set_place"], values)
    changes.pass_on_change(connection, project_id, [_affected(node)])
    if path != node.id_path:
        moved = {"project_id": project_id, "old": node.id_path, "new": path}
        ((deepest,),) = connection.execute(_SQL["deepest_after_move"], moved).fetchall()
        _check_depth(deepest)
        connection.execute(_SQL["move_below"], moved)
        changes.pass_on_change(connection, project_id, [path])


@again_if_locked
def delete(pool: Pool, project_id: str, node_id: str) -> list[str]:
    """Delete a node with everything below it. Returns the keys of the objects that are no longer needed."""
    with pool.connection() as connection:
        index_switch.lock_project(connection, project_id)
        node = _get(connection, project_id, node_id)
        changes.pass_on_change(connection, project_id, [_affected(node)])
        acl.note_change(connection, project_id, revokes=True)
        rows = connection.execute(_SQL["delete"], {"project_id": project_id, "id_path": node.id_path}).fetchall()
        return [key for (key,) in rows]


def _affected(node: NodeRow) -> str:
    """Return the id path that a change of a node's name or place affects: a hidden node may hold folder rules."""
    return node.id_path.rpartition("/")[0] or node.id_path if node.name.startswith(".") else node.id_path


def _drop_large_connection(connection: Connection[Any], sent: int) -> None:
    """Commit and close a connection that sent or received a large value: it would keep a buffer of that size."""
    if sent > MAX_BUFFER:
        connection.commit()
        connection.close()


def missing(project_id: str, node_id: str) -> NotFound:
    """Return the error for a node that does not exist, or that must not be shown."""
    return NotFound(f"The project {project_id!r} has no node {node_id!r}; check both ids.")


def _get(
    connection: Connection[Any],
    project_id: str,
    node_id: str,
    query: str = "without_json",
    sight: Sight = EVERYTHING,
) -> NodeRow:
    values = {**acl.admitting(sight), "project_id": project_id, "id": node_id}
    row = connection.cursor(row_factory=class_row(NodeRow)).execute(_SQL[query], values).fetchone()
    if row is None:
        raise missing(project_id, node_id)
    return row


def _claim(connection: Connection[Any], key: str | None) -> None:
    if key is not None:
        orphans.claim(connection, [key])


def _check_depth(length: int) -> None:
    if length > MAX_ID_PATH:
        raise Invalid("The node would be nested too deep; use shorter ids or fewer levels of folders.")


def folder_path(connection: Connection[Any], project_id: str, folder_id: str | None, sight: Sight = EVERYTHING) -> str:
    """Return the ids down to a folder (None: the root). Raises `NotFound`, or `Invalid` if the node is not a folder."""
    if folder_id is None:
        return ""
    folder = _get(connection, project_id, folder_id, sight=sight)
    if folder.withheld:
        raise missing(project_id, folder_id)
    if folder.type != "folder":
        raise Invalid(f"The node {folder_id!r} is not a folder and cannot contain nodes; choose a folder as parent.")
    return folder.id_path
