"""Rows of `summary_tree`: the existing trees, and the life of their builds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from schemas.errors import FoldexError, LeaseLost
from schemas.summary_tree import RaptorConfig
from worker.state.index import namespaces
from worker.state.index.chunks import LATE_WRITE
from worker.state.index.messages import RESEND_AFTER
from worker.state.index.tasks import LEASE, LONGEST_WAIT
from worker.state.index.tools import TREE
from worker.state.index.turns import ANYTHING, Reach
from worker.state.pool import Pool, again_if_locked, autocommit
from worker.state.queries import is_true, load

#: Number of workers in a row that may die during a build without progress before it ends.
MAX_DEATHS = 3
#: Number of unexpected exceptions of a build without progress before it ends.
MAX_FAULTS = 5

_SQL = load("tree/trees")
_NODES = load("tree/build_rows")


@dataclass(frozen=True, slots=True)
class TreeBuild:
    """A leased build of a tree."""

    id: UUID
    index_id: UUID
    project_id: str
    config: RaptorConfig
    epoch: int
    stage: str
    level: int
    is_full: bool
    deaths: int
    fits: dict[str, list[int]]
    spent: int
    #: Whether the current tree has the leaves and config of this build, unless leaves changed.
    is_current: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", RaptorConfig.model_validate(self.config))


@dataclass(frozen=True, slots=True)
class DueBuild:
    """A build that needs a message."""

    id: UUID
    index_id: UUID
    done: int
    expected: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a tool. `built_at` is None until its first build is complete."""

    id: UUID
    index_id: UUID
    config: RaptorConfig
    status: str
    expected_summaries: int
    done_summaries: int
    skipped: dict[str, int]
    tokens_in: int
    tokens_out: int
    requests: int
    warning: str | None
    error: str | None
    error_code: str | None
    built_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", RaptorConfig.model_validate(self.config))


@again_if_locked
def reconcile(pool: Pool, index_id: UUID | None = None, *, wait: bool = True) -> int:
    """Create the trees that tools want, start due builds, and delete the other trees. Returns the number of changes.

    With `index_id`, considers only trees over that index. Rows that other transactions lock are left to the next call.
    Without `wait`, the next call does everything if another process is at it.
    """
    values = {"index_id": index_id}
    with pool.connection() as connection:
        if wait:
            connection.execute(_SQL["lock"])
        elif not is_true(connection, _SQL["try_lock"]):
            return 0
        changed = connection.execute(_SQL["adopt"], values).rowcount
        made = [id_ for (id_,) in connection.execute(_SQL["insert"], values).fetchall()]
        namespaces.register(connection, made, TREE)
        changed += len(made) + connection.execute(_SQL["start_due"], values).rowcount
        unwanted = [id_ for (id_,) in connection.execute(_SQL["unwanted"], values).fetchall()]
        deleted = sum(_delete(connection, id_) for id_ in unwanted)
    return changed + deleted


def start_after_run(pool: Pool, index_id: UUID) -> None:
    """Start the builds that a finished run calls for. Otherwise the next sweep would start them."""
    with autocommit(pool) as connection:
        has_trees = is_true(connection, _SQL["any_over"], {"index_id": index_id})
    if has_trees:
        reconcile(pool, index_id, wait=False)


def _delete(connection: Connection[Any], tree_id: UUID) -> bool:
    """Delete a tree, unless its rows are locked. Its vectors wait as tombstones until the store confirms."""
    with suppress(LockNotAvailable), connection.transaction():
        for name in ("bury_nodes", "forget_vectors", "delete"):
            connection.execute(_SQL[name], {"ids": [tree_id]})
        return True
    return False


def any_open(pool: Pool) -> bool:
    """Return whether any build is open."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_open"])


def take_due_messages(pool: Pool) -> list[DueBuild]:
    """Return the open builds that no worker holds and whose message may be lost, and record that one is sent."""
    values = {"patience": RESEND_AFTER, "longest": LONGEST_WAIT, "lease": LEASE}
    with pool.connection() as connection:
        rows = connection.execute(_SQL["due_messages"], values).fetchall()
    return [DueBuild(*row) for row in rows]


def fairest(pool: Pool, preferred: UUID, reach: Reach = ANYTHING) -> UUID | None:
    """Return the build in its `reach` that is due for a worker, `preferred` on a tie."""
    values = {"preferred": preferred, "lease": LEASE, **reach.values}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["fairest"], values).fetchone()
        return row[0] if row else None


def begin(pool: Pool, tree_id: UUID, owner: UUID) -> TreeBuild | None:
    """Lease a build. Returns None if it ended, another worker has it, or a task works on its index."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(TreeBuild))
        return cursor.execute(_SQL["begin"], {"tree_id": tree_id, "owner": owner, "lease": LEASE}).fetchone()


def beat(connection: Connection[Any], tree_id: UUID, owner: UUID) -> bool:
    """Renew a lease. Returns False once the build's writes are no longer wanted."""
    values = {"tree_id": tree_id, "owner": owner, "lease": LEASE}
    return connection.execute(_SQL["beat"], values).fetchone() is not None


def release(pool: Pool, tree_id: UUID, owner: UUID, seconds: float = 0) -> None:
    """Release a build before its lease expires. Its next message is due now, or a little after `seconds`."""
    values = {"tree_id": tree_id, "owner": owner, "delay": timedelta(seconds=seconds)}
    with pool.connection() as connection:
        connection.execute(_SQL["release"], values)


def hold(connection: Connection[Any], build: TreeBuild) -> None:
    """Lock a build's row for a write. Raises `LeaseLost` once its writes are no longer wanted."""
    values = {"tree_id": build.id, "epoch": build.epoch}
    if connection.execute(_SQL["hold"], values).fetchone() is None:
        raise LeaseLost("the build was cancelled, deleted or taken over")


def advance(connection: Connection[Any], build: TreeBuild, stage: str, level: int, expected: int = 0) -> None:
    """Record the next step of a build. `expected` is the total number of summaries, as known so far."""
    values = {"tree_id": build.id, "stage": stage, "level": level, "expected": expected}
    connection.execute(_SQL["advance"], values)


def note_fits(connection: Connection[Any], build: TreeBuild, level: int, fit: Sequence[int]) -> None:
    """Record the number of items of a layer when it was clustered from scratch, and the changes since."""
    connection.execute(_SQL["note_fits"], {"tree_id": build.id, "fits": Jsonb({str(level): list(fit)})})


def note_index_task(connection: Connection[Any], build: TreeBuild) -> None:
    """Record that the build includes all changes of the newest task over the index."""
    connection.execute(_SQL["note_index_task"], {"tree_id": build.id})


def count_paid(pool: Pool, build: TreeBuild, tokens_in: int, tokens_out: int) -> None:
    """Count one request to a language model."""
    values = {"tree_id": build.id, "requests": 1, "tokens_in": tokens_in, "tokens_out": tokens_out}
    with pool.connection() as connection:
        connection.execute(_SQL["paid"], values)


def warn(pool: Pool, tree_id: UUID, warning: str) -> None:
    """Set the warning that says what a build waits for."""
    with pool.connection() as connection:
        connection.execute(_SQL["warn"], {"tree_id": tree_id, "warning": warning})


def count_fault(pool: Pool, tree_id: UUID) -> int:
    """Count an unexpected exception. Returns the number since the last progress."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["count_fault"], {"tree_id": tree_id}).fetchone()
        return int(row[0]) if row else 0


def request(pool: Pool, tree_id: UUID, *, full: bool) -> None:
    """Start a build, or request one more after the open one."""
    values = {"tree_id": tree_id, "full": full}
    with pool.connection() as connection:
        if not connection.execute(_SQL["start"], values).rowcount:
            connection.execute(_SQL["request"], values)


def cancel(pool: Pool, tree_id: UUID) -> bool:
    """End a build; the last complete tree stays. Returns False if none is open."""
    with pool.connection() as connection:
        return _stop(connection, tree_id, "cancelled", None)


def fail(pool: Pool, tree_id: UUID, error: FoldexError) -> None:
    """End a build that cannot continue; the last complete tree stays."""
    with pool.connection() as connection:
        _stop(connection, tree_id, "error", error)


def _stop(connection: Connection[Any], tree_id: UUID, status: str, error: FoldexError | None) -> bool:
    values = {"tree_id": tree_id, "status": status, "error": error and error.message}
    values["error_code"] = error and error.code
    if connection.execute(_SQL["stop"], values).fetchone() is None:
        return False
    for name in ("end_building", "reset_building"):
        connection.execute(_NODES[name], values)
    connection.execute(_SQL["start_again"], values)
    return True


def complete(connection: Connection[Any], build: TreeBuild, *, changed: bool) -> None:
    """End a build whose tree is complete, and start the next one if it was requested."""
    connection.execute(_SQL["complete"], {"tree_id": build.id, "changed": changed})
    connection.execute(_SQL["start_again"], {"tree_id": build.id})


def of_tool(pool: Pool, tool_id: UUID) -> Tree | None:
    """Return the tree that a tool wants, in any state of its build."""
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(Tree)).execute(_SQL["of_tool"], {"tool_id": tool_id}).fetchone()


@dataclass(frozen=True, slots=True)
class TreeTombstones:
    """Vectors of an index's trees to delete; no late write can bring back those in `final`."""

    index_id: UUID
    namespace: str
    vector_store: str
    keyword_index: str
    dimensions: int
    ids: list[UUID]
    final: list[UUID]


def due_tombstones(pool: Pool, limit: int) -> list[TreeTombstones]:
    """Return vectors of summaries to delete, up to `limit` for each of a few indexes."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(TreeTombstones))
        return cursor.execute(_SQL["due_tombstones"], {"late": LATE_WRITE, "limit": limit}).fetchall()


def confirm_deleted(pool: Pool, tombstones: TreeTombstones) -> None:
    """Note that the store deleted these vectors; forget those that no late write can bring back."""
    with pool.connection() as connection:
        connection.execute(_SQL["confirm_deleted"], {"ids": tombstones.ids})
        connection.execute(_SQL["purge_tombstones"], {"ids": tombstones.final})
