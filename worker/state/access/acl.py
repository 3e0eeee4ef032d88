"""Rows of `acl_class`: the access lists of a project's nodes, and which lists admit a caller."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from schemas.content.acl import DENY, EVERYBODY, Sight
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

_SQL = load("access/acl")


class Version(NamedTuple):
    """Increasing numbers: `revoked` rises when a caller may lose access, `changed` also with new nodes."""

    revoked: int
    changed: int


class VisibleFile(NamedTuple):
    """A file that a caller may read, by both of its ids; `path` if it was asked for."""

    id: UUID
    node_id: str
    path: str | None


def class_of(connection: Connection[Any], project_id: str, entries: Sequence[str]) -> int:
    """Return the number of a list in a project. It is new if no node had this list before."""
    values = {"project_id": project_id, "entries": list(entries)}
    digest = hashlib.sha256("\0".join(entries).encode()).digest()
    found = None
    while found is None:
        # a row of a concurrently rolled back transaction is in neither
        for query in ("find", "insert"):
            found = found or connection.execute(_SQL[query], {**values, "digest": digest}).fetchone()
    return int(found[0])


def admitting(sight: Sight) -> Mapping[str, list[str] | None]:
    """Return query values: the entries that admit a caller, and those that deny access. None: all may be shown."""
    if sight.principals is None:
        return {"admitting": None, "denying": None}
    held = [*sight.principals, EVERYBODY]
    return {"admitting": held, "denying": [f"{DENY}{each}" for each in held]}


def note_change(connection: Connection[Any], project_id: str, *, revokes: bool) -> None:
    """Notify caches that lists, places or metadata of a project's nodes changed, or rules of its tools.

    `revokes`: a caller may no longer read what it could. Then answers in progress are computed again.
    """
    connection.execute(_SQL["note_change"], {"project_id": project_id, "revokes": revokes})


def note_rules(connection: Connection[Any], project_id: str, lists: Collection[Sequence[str]]) -> None:
    """Notify caches that rules with these lists hold for a tool. `version` is never None from then on."""
    for entries in lists:
        class_of(connection, project_id, entries)
    note_change(connection, project_id, revokes=True)


def version(pool: Pool, project_id: str) -> Version | None:
    """Return the version of a project's lists; None if it never had one."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["version"], {"project_id": project_id}).fetchone()
    return None if row is None else Version(*row)


def readable(pool: Pool, project_id: str, principals: Collection[str]) -> frozenset[int]:
    """Return the lists of a project that admit a caller with these principals."""
    with autocommit(pool) as connection:
        return readable_over(connection, project_id, principals)


def readable_over(connection: Connection[Any], project_id: str, principals: Collection[str]) -> frozenset[int]:
    """Do what `readable` does, over a connection."""
    values = {**admitting(Sight(frozenset(principals))), "project_id": project_id}
    # planned each time: a plan for any entries does not use the index
    return frozenset(number for (number,) in connection.execute(_SQL["readable"], values, prepare=False))


def visible_files(pool: Pool, index_id: UUID, classes: Collection[int], *, with_paths: bool) -> list[VisibleFile]:
    """Return the files of an index that are in these classes, or in none, in the order of paths."""
    values = {"index_id": index_id, "classes": list(classes), "with_paths": with_paths}
    with autocommit(pool) as connection:
        return list(map(VisibleFile._make, connection.execute(_SQL["visible_files"], values)))


def any_hidden(pool: Pool, index_id: UUID, classes: Collection[int]) -> bool:
    """Return whether an index has a file in another class than these, or will have one after its next listing."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_hidden"], {"index_id": index_id, "classes": list(classes)})


def may_hide(pool: Pool, index_id: UUID) -> bool:
    """Return whether a list holds for any node at or below an index's node."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["may_hide"], {"index_id": index_id})


def may_hide_below(pool: Pool, project_id: str, node_id: str) -> bool:
    """Return whether a list holds for a node or any node below it."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["may_hide_below"], {"project_id": project_id, "node_id": node_id})


def visible_nodes(pool: Pool, project_id: str, ids: Collection[str], classes: Collection[int]) -> set[str]:
    """Return the given nodes of a project that are in these classes, or in none."""
    values = {"project_id": project_id, "ids": list(ids), "classes": list(classes)}
    with autocommit(pool) as connection:
        return {id_ for (id_,) in connection.execute(_SQL["visible_nodes"], values)}
