"""Rows of `search_index_change`: folders that changed and wait for an automatic run.

A change marks its index, in the transaction of the change if there is one; the sweep starts due runs. So a lost message
or process loses no change, and many changes cost one run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from schemas.content.source import AnySource, parsed_source
from schemas.status import TaskKind
from schemas.tool import IndexSettings
from worker.state.index import index_switch, tasks
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: A run waits until its folder has been without changes for this long.
QUIET = timedelta(seconds=2)
#: Maximum time by which further changes delay a run after the first change.
LONGEST_DELAY = timedelta(seconds=15)
#: The same for a run over some paths of a watched folder, which costs little.
QUIET_OF_PATHS, LONGEST_DELAY_OF_PATHS = timedelta(seconds=0.1), timedelta(seconds=1)
#: Factor by which a watch's pause is shorter after a run over some paths.
REST_SHARE_OF_PATHS = 1 / 20
#: Maximum number of scheduled tools that one sweep handles.
MAX_SCHEDULED = 100
#: Maximum number of runs that one sweep starts.
MAX_DUE = 50

_SQL = load("index/changes")
_DELAYS = {"quiet": QUIET, "patience": LONGEST_DELAY, "most_paths": tasks.MAX_PATHS}


@dataclass(frozen=True, slots=True)
class WatchedIndex:
    """An index whose folder a tool watches."""

    id: UUID
    project_id: str
    source: AnySource
    settings: IndexSettings

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", parsed_source(self.source))
        object.__setattr__(self, "settings", IndexSettings.model_validate(self.settings))


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that was started automatically, and the tool it runs for."""

    task_id: UUID
    tool_id: UUID


def pass_on_change(connection: Connection[Any], project_id: str, id_paths: Sequence[str]) -> None:
    """Pass the change of these nodes on to every tool that indexes them, within its transaction.

    Requires the project locked. Tools with `auto_reindex` get a run; a running task of other tools gets a follow-up.
    """
    tasks.request_rerun_over_nodes(connection, project_id, id_paths)
    values = {"project_id": project_id, "id_paths": list(id_paths)}
    connection.execute(_SQL["nodes_changed"], {**values, **_DELAYS})


def follow_from_now(connection: Connection[Any], tool_id: UUID) -> None:
    """Take up earlier edits for a tool that starts to follow edits of its nodes."""
    connection.execute(_SQL["following_now"], {"tool_id": tool_id})


def list_watched(pool: Pool) -> list[WatchedIndex]:
    """Return every index that a tool asks to watch."""
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(WatchedIndex)).execute(_SQL["watched"]).fetchall()


def note_change(
    pool: Pool,
    index_id: UUID,
    *,
    paths: Collection[str] | None = None,
    quiet: timedelta = QUIET,
    rest: timedelta = timedelta(0),
) -> float | None:
    """Record that the folder of an index changed at `paths`, or anywhere.

    `rest` is the minimum time between two runs of a watch. Returns the seconds until the run is due; None if the index
    is gone.
    """
    values: dict[str, object] = {**_DELAYS, "index_id": index_id, "quiet": quiet, "rest": rest * REST_SHARE_OF_PATHS}
    values["paths"] = None if paths is None else sorted(paths)
    if paths is not None:
        values["patience"] = LONGEST_DELAY_OF_PATHS
    with pool.connection() as connection:
        connection.execute(_SQL["hurry"])
        row = connection.execute(_SQL["changed"], values).fetchone()
        return None if row is None else row[0]


def look_at_nodes(pool: Pool, index_id: UUID) -> None:
    """Record whether the nodes of an index changed since the last check."""
    with pool.connection() as connection:
        connection.execute(_SQL["look_at_nodes"], {"index_id": index_id, "quiet": QUIET})


def schedule(pool: Pool, limit: int = MAX_SCHEDULED) -> None:
    """Record which tools are due by their schedule."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["schedule"], {"limit": limit})


def due(pool: Pool, limit: int = MAX_DUE) -> list[UUID]:
    """Return the indexes whose run is due."""
    with autocommit(pool) as connection:
        return [index_id for (index_id,) in connection.execute(_SQL["due"], {"limit": limit}).fetchall()]


def postpone(pool: Pool, index_id: UUID, pause: timedelta) -> None:
    """Delay the run of an index, so that others get their turn."""
    with pool.connection() as connection:
        connection.execute(_SQL["postpone"], {"index_id": index_id, "pause": pause})


def start(pool: Pool, index_id: UUID, rest: timedelta) -> StartedTask | None:
    """Take up an index's changes: start a task, or request a follow-up of the open one and return None.

    It lists the paths that changed, if these are known. For `rest` no watch starts the next run over everything. An
    index that other transactions lock stays due.
    """
    values: dict[str, object] = {"index_id": index_id, "rest": rest, "most_paths": tasks.MAX_PATHS}
    with pool.connection() as connection:
        if not index_switch.try_lock_index(connection, index_id):
            return None
        noted = connection.execute(_SQL["noted"], values).fetchone()
        if noted is None:
            return None
        (paths,) = noted
        values["paths"] = paths
        connection.execute(_SQL["take"], values)
        owner = connection.execute(_SQL["owner"], values).fetchone()
        if owner is None:
            return None
        tool_id, folder_node_id = owner
        if connection.execute(_SQL["join"], {**values, "tool_id": tool_id}).rowcount:
            return None
        task_id = tasks.create(
            connection,
            tool_id=tool_id,
            index_id=index_id,
            folder_node_id=folder_node_id,
            kind=TaskKind.REINDEX,
            paths=paths,
        )
        return StartedTask(task_id, tool_id) if task_id else None


def let_be(connection: Connection[Any], index_id: UUID, *, stopped: bool) -> None:
    """Cancel the run for changes so far. The next run that a change starts lists the whole folder.

    `stopped`: a task was stopped that may have taken up changes.
    """
    connection.execute(_SQL["let_be"], {"index_id": index_id, "stopped": stopped})
