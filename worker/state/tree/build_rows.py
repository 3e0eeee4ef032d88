"""Rows of `tree_leaf`, `tree_node` and `summary_cache`, as a build writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from schemas.content.document import Chunk, text_hash
from worker.reading import embedded
from worker.state.index.chunks import with_embedded_form
from worker.state.pool import Pool
from worker.state.queries import load
from worker.state.tree import trees
from worker.state.tree.trees import TreeBuild

_SQL = load("tree/build_rows")
_TREES = load("tree/trees")


class TreeLeaf(NamedTuple):
    """A text at the bottom of a tree, with one chunk of that text and the path of its file."""

    hash: str
    chunk_id: UUID
    path: str


class SummaryNode(NamedTuple):
    """A summary with a vector."""

    id: UUID
    key: str
    slot: int
    children: list[str]
    text_hash: str


class PlannedCluster(NamedTuple):
    """A cluster whose summary is wanted."""

    id: UUID
    slot: int
    key: str
    children: Sequence[str]


class OpenCluster(NamedTuple):
    """A cluster without a summary."""

    id: UUID
    key: str
    children: list[str]


class UnembeddedSummary(NamedTuple):
    """A summary without a vector."""

    id: UUID
    text: str
    text_hash: str


def capture_leaves(connection: Connection[Any], build: TreeBuild) -> tuple[int, int]:
    """Fix the leaves of a build. Returns their number, and how many differ from the current tree."""
    connection.execute(_SQL["capture_leaves"], {"tree_id": build.id, "index_id": build.index_id})
    row = connection.execute(_SQL["count_leaves"], {"tree_id": build.id}).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def start_nodes(connection: Connection[Any], build: TreeBuild) -> None:
    """Delete the wanted nodes of an earlier build."""
    connection.execute(_SQL["start_nodes"], {"tree_id": build.id})


def leaves(pool: Pool, build: TreeBuild) -> list[TreeLeaf]:
    """Return the leaves of the build that are still in the folder, in the order of folders, files and texts."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["leaves"], {"tree_id": build.id, "index_id": build.index_id}).fetchall()
    return [TreeLeaf(*row) for row in rows]


def nodes(pool: Pool, build: TreeBuild, level: int) -> list[SummaryNode]:
    """Return the summaries of a level that the build has."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["nodes"], {"tree_id": build.id, "level": level}).fetchall()
    return [SummaryNode(*row) for row in rows]


def read_kept_clusters(pool: Pool, build: TreeBuild, level: int) -> list[tuple[int, list[str]]]:
    """Return slot and members of a level's clusters in the current tree."""
    with pool.connection() as connection:
        return connection.execute(_SQL["kept_clusters"], {"tree_id": build.id, "level": level}).fetchall()


def slots(pool: Pool, build: TreeBuild, level: int) -> dict[str, int]:
    """Return the slots of a level's nodes by key, in the current tree and the one being built."""
    with pool.connection() as connection:
        return dict(connection.execute(_SQL["slots"], {"tree_id": build.id, "level": level}).fetchall())


def plan(connection: Connection[Any], build: TreeBuild, level: int, clusters: Sequence[PlannedCluster]) -> None:
    """Write the clusters of a level. A cluster that a tree already has keeps its row with its summary."""
    values = {
        "tree_id": build.id,
        "level": level,
        "ids": [cluster.id for cluster in clusters],
        "slots": [cluster.slot for cluster in clusters],
        "keys": [cluster.key for cluster in clusters],
        "children": [" ".join(cluster.children) for cluster in clusters],
    }
    connection.execute(_SQL["plan"], values)


def count_unsummarised(connection: Connection[Any], build: TreeBuild, level: int) -> int:
    """Count the clusters of a level that have neither a summary nor a reason to have none."""
    row = connection.execute(_SQL["count_unsummarised"], {"tree_id": build.id, "level": level}).fetchone()
    return int(row[0]) if row else 0


def count_unpaid(connection: Connection[Any], build: TreeBuild) -> tuple[int, int]:
    """Count the clusters of the first level that must be paid for, and the tokens of their texts."""
    values = {"tree_id": build.id, "index_id": build.index_id, "project_id": build.project_id}
    row = connection.execute(_SQL["unpaid"], values).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def first_leaves(pool: Pool, build: TreeBuild, level: int) -> dict[str, list[str]]:
    """Return the leaves below each summary of a level, by its key."""
    with pool.connection() as connection:
        return dict(connection.execute(_SQL["first_leaves"], {"tree_id": build.id, "level": level}).fetchall())


def list_unsummarised(pool: Pool, build: TreeBuild, level: int, limit: int) -> list[OpenCluster]:
    """Return clusters of a level that have neither a summary nor a reason to have none."""
    values = {"tree_id": build.id, "level": level, "limit": limit}
    with pool.connection() as connection:
        return [OpenCluster(*row) for row in connection.execute(_SQL["unsummarised"], values).fetchall()]


def texts(pool: Pool, build: TreeBuild, level: int, children: Sequence[str]) -> dict[str, str]:
    """Return the texts of a cluster's children by hash or key, as far as they still exist."""
    values = {"tree_id": build.id, "index_id": build.index_id, "hashes": list(children), "keys": list(children)}
    with pool.connection() as connection:
        if level == 1:
            rows = connection.execute(_SQL["leaf_texts"], values).fetchall()
            return {hash_: embedded(type_, text) for hash_, type_, text in rows}
        return dict(connection.execute(_SQL["node_texts"], values).fetchall())


def find_summary(pool: Pool, build: TreeBuild, key: str) -> str | None:
    """Return a summary that the project already paid for."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["cached"], {"project_id": build.project_id, "key": key}).fetchone()
        return row[0] if row else None


def cache(pool: Pool, build: TreeBuild, key: str, text: str) -> None:
    """Cache a summary as soon as it arrives, even after a lost lease: it is paid for. A deleted tree keeps nothing."""
    values = {"project_id": build.project_id, "tree_id": build.id, "key": key, "text": text}
    with pool.connection() as connection:
        connection.execute(_SQL["cache"], values)


def keep(pool: Pool, build: TreeBuild, id_: UUID, text: str | None, text_hash: str | None, reason: str | None) -> int:
    """Write the summary of a cluster, or its reason to have none. Returns the failures in a row for this reason.

    Raises `LeaseLost`.
    """
    values = {"tree_id": build.id, "id": id_, "text": text, "text_hash": text_hash, "skip_reason": reason}
    with pool.connection() as connection:
        trees.hold(connection, build)
        connection.execute(_SQL["keep_text"], values)
        row = connection.execute(_TREES["count_done"], values).fetchone()
        return int(row[0]) if row else 0


def list_unstored(pool: Pool, build: TreeBuild, level: int, limit: int) -> list[UnembeddedSummary]:
    """Return summaries of a level whose vectors the store does not have."""
    values = {"tree_id": build.id, "level": level, "limit": limit}
    with pool.connection() as connection:
        return [UnembeddedSummary(*row) for row in connection.execute(_SQL["unstored"], values).fetchall()]


def note_stored(pool: Pool, build: TreeBuild, ids: Sequence[UUID], refused: Sequence[UUID] = ()) -> None:
    """Record that the store has these vectors, and that the provider refuses to embed the `refused` texts."""
    with pool.connection() as connection:
        trees.hold(connection, build)
        connection.execute(_SQL["stored"], {"ids": list(ids)})
        connection.execute(_SQL["refused"], {"ids": list(refused), "reason": "not_embedded"})


def leaf_inputs(pool: Pool, chunk_ids: Sequence[UUID]) -> dict[str, str]:
    """Return the embedded texts of these chunks, by hash. A text that no longer has its hash is left out."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["lost_leaves"], {"ids": list(chunk_ids)}).fetchall()
    found = {
        hash_: with_embedded_form(Chunk(text, 0, len(text), 1, 1, 0, context), hash_, type_, path).embedded_text
        for hash_, type_, path, context, text in rows
    }
    return {hash_: text for hash_, text in found.items() if text_hash(text) == hash_}


def publish(pool: Pool, build: TreeBuild) -> None:
    """Make the built tree the current one. Rows that only the previous tree had wait for deletion."""
    values = {"tree_id": build.id, "index_id": build.index_id}
    with pool.connection() as connection:
        trees.hold(connection, build)
        for name in ("bury_old", "show_nodes", "drop_leaves", "show_leaves", "forget_old"):
            connection.execute(_SQL[name], values)
        trees.complete(connection, build, changed=True)
