"""The references of tools to indexes: switches to another index, and deletion of indexes without a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from schemas.status import TaskStatus
from worker.state.connections import be_patient
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Time for which queries from before the switch can read the old index: more than the longest answer takes.
LINGER = timedelta(seconds=30)

_SQL = load("index/index_switch")


@dataclass(frozen=True, slots=True)
class LockedTool:
    """A tool whose indexes no other transaction changes until this one ends."""

    id: UUID
    project_id: str
    index_id: UUID
    identity: str
    folder_node_id: str | None
    next_index_id: UUID | None
    next_identity: str | None
    #: The config, or the one to which a pending change leads.
    wanted_config: Mapping[str, object]
    #: Whether it takes metadata from sidecars now.
    has_sidecars: bool
    #: Whether the open task of the index was stopped but has not ended yet.
    is_stopping: bool


def lock_project(connection: Connection[Any], project_id: str) -> None:
    """Wait for other transactions that change the references, the task ends or the nodes of a project.

    From then on this transaction waits at most a second for each further lock: see `worker.state.lock_order`.
    """
    be_patient(connection)
    connection.execute(_SQL["lock_project"], {"project_id": project_id})


def lock_index(connection: Connection[Any], index_id: UUID) -> None:
    """Lock an index's project, and the index itself against finishing files and a new epoch."""
    be_patient(connection)
    connection.execute(_SQL["lock_project_of_index"], {"index_id": index_id})
    connection.execute(_SQL["lock_indexes"], {"index_ids": [index_id]})


def try_lock_index(connection: Connection[Any], index_id: UUID) -> bool:
    """Like `lock_index`, without waiting. Returns False if the project or index is locked, or the index is gone."""
    values = {"index_id": index_id}
    row = connection.execute(_SQL["try_lock_project_of_index"], values).fetchone()
    return row is not None and row[0] and try_lock_rows(connection, index_id)


def try_lock_rows(connection: Connection[Any], index_id: UUID) -> bool:
    """Keep an index from beginning a task, without waiting. Returns False if it is locked or gone."""
    return connection.execute(_SQL["try_lock_index"], {"index_id": index_id}).rowcount > 0


def lock_tool(connection: Connection[Any], tool_id: UUID) -> LockedTool | None:
    """Lock a tool's project, the tool and its indexes. Returns None if the tool is gone."""
    be_patient(connection)
    values = {"tool_id": tool_id}
    connection.execute(_SQL["lock_project_of_tool"], values)
    tool = connection.cursor(row_factory=class_row(LockedTool)).execute(_SQL["lock_tool"], values).fetchone()
    if tool is not None:
        connection.execute(_SQL["lock_indexes"], {"index_ids": [tool.index_id, tool.next_index_id]})
    return tool


def shut_out(connection: Connection[Any], tool_id: UUID, only: UUID | None = None) -> None:
    """Stop the work over a tool's indexes, or of `only` one task, whatever else is locked.

    The caller must then end the tasks. The sweep ends the tasks that this process does not.
    """
    locked = connection.execute(_SQL["lock_stopped"], {"tool_id": tool_id}).fetchall()
    # a statement of its own: while the first one waits, a task may end and the next one begin
    connection.execute(_SQL["shut_out"], {"index_ids": [id_ for (id_,) in locked], "only": only})


def stopping(pool: Pool, limit: int) -> Sequence[tuple[UUID, UUID]]:
    """Return open tasks, with their indexes, that a cancel or a delete stopped."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["stopping"], {"limit": limit}).fetchall()


def bury(connection: Connection[Any], index_id: UUID, linger: timedelta = timedelta(0)) -> bool:
    """Delete an index to which no tool refers, and end its task. Returns whether it is deleted.

    Requires the project locked.
    """
    values = {"index_id": index_id, "linger": linger}
    buried = connection.execute(_SQL["bury_index"], values).rowcount > 0
    if buried:
        connection.execute(_SQL["cancel_buried"], values)
    return buried


def begin_update(connection: Connection[Any], tool_id: UUID, index_id: UUID, config: object) -> None:
    """Record that a tool switches to another index as soon as that is ready."""
    connection.execute(_SQL["begin_update"], {"tool_id": tool_id, "index_id": index_id, "config": config})


def begin_updates(connection: Connection[Any], index_id: UUID, next_index_id: UUID) -> None:
    """Record that all tools of an index switch to another one as soon as that is ready. Requires the project locked."""
    connection.execute(_SQL["begin_updates"], {"index_id": index_id, "next_index_id": next_index_id})


def end_update(connection: Connection[Any], tool: LockedTool, error: str | None = None) -> None:
    """Give up the index that is being built for a tool, if any; `error` gives the tool's owner the reason."""
    if tool.next_index_id is not None:
        connection.execute(_SQL["end_update"], {"tool_id": tool.id, "error": error})
        bury(connection, tool.next_index_id)


def settle(connection: Connection[Any], index_id: UUID, status: TaskStatus, error: str | None) -> None:
    """After a task over the index ended, switch the tools that waited for it or let them stay.

    Deletes an index that nobody uses after that. Requires the project locked.
    """
    values = {"index_id": index_id, "error": error or f"The new index was {status} before it was ready."}
    if status is TaskStatus.READY:
        for (old,) in connection.execute(_SQL["switch_tools"], values).fetchall():
            bury(connection, old, LINGER)
    elif connection.execute(_SQL["end_updates"], values).rowcount:
        bury(connection, index_id)
