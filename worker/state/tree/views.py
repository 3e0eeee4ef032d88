"""Trees for readers and searches: live nodes only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load
from worker.state.tree.trees import Tree

#: Maximum number of paths listed of the files below one node.
MAX_PATHS = 100

_SQL = load("tree/views")


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Leaves and summaries of a tree: (level, count), from level 0 on. `stale`: number of texts that changed since."""

    levels: list[tuple[int, int]]
    stale: int


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node with its neighbours in the tree."""

    id: UUID
    level: int
    text: str
    children: list[UUID]
    parents: list[UUID]
    paths: list[str]


class ShownPart(NamedTuple):
    """The visible part of a tree: the files whose texts are shown, and the keys of the shown summaries; None: all."""

    files: Sequence[UUID] | None = None
    readable: Sequence[str] | None = None


ALL = ShownPart()


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as a search needs it."""

    id: UUID
    key: str
    level: int
    text: str
    children: list[str]


def summaries(
    pool: Pool, tree: Tree, *, ids: Sequence[UUID] | None = None, keys: Sequence[str] | None = None
) -> list[StoredSummary]:
    """Return the live summaries with these ids, or with these keys."""
    values = {
        "tree_id": tree.id,
        "ids": None if ids is None else list(ids),
        "keys": None if keys is None else list(keys),
    }
    with autocommit(pool) as connection:
        return [StoredSummary(*row) for row in connection.execute(_SQL["summaries"], values).fetchall()]


def top_level(pool: Pool, tree: Tree) -> int:
    """Return the highest level with a summary; 0 if there is none."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["top_level"], {"tree_id": tree.id}).fetchone()
        return int(row[0]) if row else 0


def passing_chunks(pool: Pool, tree: Tree, hashes: Sequence[str], filters: Mapping[str, object]) -> dict[str, UUID]:
    """Return a live chunk for each of these texts that has one which passes the filters of a query."""
    if not hashes:
        return {}
    with autocommit(pool) as connection:
        values = {**filters, "index_id": tree.index_id, "hashes": list(hashes)}
        return dict(connection.execute(_SQL["passing_chunks"], values).fetchall())


def count_nodes(pool: Pool, tree: Tree) -> TreeShape:
    """Count the nodes of the current tree."""
    values = {"tree_id": tree.id, "index_id": tree.index_id}
    with autocommit(pool) as connection:
        (leaves,) = connection.execute(_SQL["leaf_count"], values).fetchone() or (0,)
        levels = connection.execute(_SQL["levels"], values).fetchall()
        (stale,) = connection.execute(_SQL["stale"], values).fetchone() or (0,)
    return TreeShape([(0, leaves), *levels] if leaves else levels, stale if tree.built_at else 0)


@dataclass(frozen=True, slots=True)
class AllNodes:
    """The nodes of all trees over an index: those of current trees, and all that may have a vector."""

    live: set[UUID]
    known: set[UUID]


def all_nodes(pool: Pool, index_id: UUID) -> AllNodes | None:
    """Return the nodes of all trees over an index; None if it has neither a tree nor tree vectors to delete."""
    values = {"index_id": index_id}
    with autocommit(pool) as connection:
        if not is_true(connection, _SQL["has_nodes"], values):
            return None
        rows = connection.execute(_SQL["all_nodes"], values).fetchall()
    return AllNodes({id_ for id_, is_live in rows if is_live}, {id_ for id_, _ in rows})


def rewrite(pool: Pool, index_id: UUID, ids: Sequence[UUID]) -> None:
    """Record that the store lost these vectors, and start a build that writes them."""
    with pool.connection() as connection:
        connection.execute(_SQL["rewrite"], {"index_id": index_id, "ids": list(ids)})


def count_leaves(pool: Pool, index_id: UUID) -> tuple[int, int]:
    """Count the texts that a tree over an index would have as leaves, and their tokens."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["folder"], {"index_id": index_id}).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def page(
    pool: Pool,
    tree: Tree,
    *,
    level: int | None,
    parent: UUID | None,
    shown: ShownPart = ALL,
    after: tuple[int, UUID] | None,
    limit: int,
) -> list[ShownNode]:
    """List the visible nodes from the top down: nodes of a level, below a parent, or all summaries."""
    keys: list[str] | None = None
    if parent is not None:
        above = _node(pool, tree, parent)
        is_shown = above is not None and (shown.readable is None or above[2] in shown.readable)
        if above is None or not is_shown or (level is not None and level != above[0] - 1):
            return []
        level, keys = above[0] - 1, above[1]
    after_level, after_id = after or (None, None)
    values: dict[str, object] = {"tree_id": tree.id, "index_id": tree.index_id, "level": level, "keys": keys}
    values |= shown._asdict() | {"after_level": after_level, "after_id": after_id, "limit": limit}
    with pool.connection() as connection:
        query = _SQL["leaf_page" if level == 0 else "page"]
        rows = connection.cursor(row_factory=class_row(StoredSummary)).execute(query, values).fetchall()
    return _shown(pool, tree, rows, shown)


def readable_summaries(pool: Pool, tree: Tree, files: Sequence[UUID]) -> list[str]:
    """Return the keys of summaries whose texts all belong to these files."""
    values = {"tree_id": tree.id, "index_id": tree.index_id, "files": files}
    with autocommit(pool) as connection:
        return [key for (key,) in connection.execute(_SQL["readable_summaries"], values)]


def _node(pool: Pool, tree: Tree, id_: UUID) -> tuple[int, list[str], str] | None:
    with pool.connection() as connection:
        return connection.execute(_SQL["node"], {"tree_id": tree.id, "id": id_}).fetchone()


def _shown(pool: Pool, tree: Tree, rows: Sequence[StoredSummary], shown: ShownPart) -> list[ShownNode]:
    keys = [row.key for row in rows]
    children = list({child for row in rows for child in row.children})
    parents = _grouped(pool, "parents", tree, keys, shown)
    ids = dict(_rows(pool, "node_ids", tree, children)) | dict(_rows(pool, "leaf_ids", tree, children, shown))
    found = _paths(pool, tree, keys, shown)
    return [
        ShownNode(
            row.id,
            row.level,
            row.text,
            [ids[child] for child in row.children if child in ids],
            parents.get(row.key, []),
            found.get(row.key, [])[:MAX_PATHS],
        )
        for row in rows
    ]


def paths(pool: Pool, tree: Tree, keys: Sequence[str], files: Sequence[UUID] | None) -> dict[str, list[str]]:
    """Return the paths of the files below nodes and leaves, by key or hash; None: of all files, else of these."""
    return _paths(pool, tree, keys, ShownPart(files))


def _paths(pool: Pool, tree: Tree, keys: Sequence[str], shown: ShownPart) -> dict[str, list[str]]:
    below = leaves_below(pool, tree, keys)
    hashes = {key: below.get(key) or [key] for key in keys}
    distinct = list({hash_ for of_key in hashes.values() for hash_ in of_key})
    by_hash = _grouped(pool, "paths", tree, distinct, shown)
    return {
        key: sorted({path for hash_ in of_key for path in by_hash.get(hash_, ())}) for key, of_key in hashes.items()
    }


def leaves_below(pool: Pool, tree: Tree, keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the hashes of the leaves below summaries, by key."""
    return _grouped(pool, "leaves_below", tree, keys)


def _grouped(pool: Pool, query: str, tree: Tree, keys: Sequence[str], shown: ShownPart = ALL) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = defaultdict(list)
    for key, value in _rows(pool, query, tree, keys, shown):
        grouped[key].append(value)
    return grouped


def _rows(pool: Pool, query: str, tree: Tree, keys: Sequence[str], shown: ShownPart = ALL) -> list[tuple[Any, ...]]:
    if not keys:
        return []
    values = {"tree_id": tree.id, "index_id": tree.index_id, "keys": list(keys), **shown._asdict()}
    with pool.connection() as connection:
        return connection.execute(_SQL[query], values).fetchall()
