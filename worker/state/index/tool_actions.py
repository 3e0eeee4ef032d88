"""User actions on an existing tool: reindex, cancel, retry, change the configuration."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from schemas.errors import NotFound
from schemas.status import TaskKind
from schemas.tool import ToolConfig
from worker.state.index import changes, index_switch, tasks, tools
from worker.state.index.index_switch import Held
from worker.state.index.tasks import Retry
from worker.state.index.tools import NewIndex
from worker.state.postgres import Pool, load

CANCELLED = "The change was cancelled."

_SQL = load("index/tools")


def reindex(pool: Pool, tool_id: UUID, *, full: bool, allow_removals: bool) -> UUID | None:
    """Start an incremental task and return its id, or request a follow-up of the open one and return None.

    An index that is being built for the tool is brought up to date as well. Raises `NotFound`.
    """
    with pool.connection() as connection:
        held = _hold(connection, tool_id)
        if held.next_index_id is not None:
            tasks.ask_again(connection, held.next_index_id, allow_removals=allow_removals)
        if tasks.ask_again(connection, held.index_id, full=full, allow_removals=allow_removals):
            return None
        return tasks.create(
            connection,
            tool_id=tool_id,
            index_id=held.index_id,
            folder_node_id=held.folder_node_id,
            kind=TaskKind.REINDEX,
            full=full,
            allow_removals=allow_removals,
        )


def cancel(pool: Pool, tool_id: UUID) -> None:
    """End the task over the tool's index, and give up the index that is being built for it. Raises `NotFound`."""
    with pool.connection() as connection:
        held = _hold(connection, tool_id)
        index_switch.end_update(connection, held, CANCELLED)
        tasks.cancel(connection, held.index_id)
        changes.forget(connection, held.index_id)


def retry(pool: Pool, tool_id: UUID) -> Retry | None:
    """Start a task over what failed or was left open. Returns None if there is nothing, or a task is already open.

    An open task gets a follow-up, which takes up what failed in it. Raises `NotFound`.
    """
    with pool.connection() as connection:
        held = _hold(connection, tool_id)
        if tasks.ask_again(connection, held.index_id):
            return None
        return tasks.retry(connection, tool_id=tool_id, index_id=held.index_id, folder_node_id=held.folder_node_id)


def rename(pool: Pool, tool_id: UUID, name: str) -> None:
    """Give a tool another name."""
    with pool.connection() as connection:
        connection.execute(_SQL["rename"], {"tool_id": tool_id, "name": name})


def change_config(pool: Pool, tool_id: UUID, config: ToolConfig, wanted: NewIndex) -> UUID | None:
    """Change a tool's config: at once if it leads to the same index, otherwise as soon as the wanted index is ready.

    Returns the task to send, if one was started. An index being built for an earlier change is given up. Raises
    `NotFound`.
    """
    stored = Jsonb(config.model_dump(exclude_defaults=True))
    values = {"tool_id": tool_id, "config": stored}
    with pool.connection() as connection:
        held = _hold(connection, tool_id)
        if wanted.identity == held.next_identity:
            connection.execute(_SQL["set_next_config"], values)
            return None
        if wanted.identity == held.identity:
            if config.auto_reindex:
                changes.follow_from_now(connection, tool_id)
            connection.execute(_SQL["set_config"], values)
            index_switch.end_update(connection, held)
            return None
        return _build(connection, held, wanted, stored)


def _build(connection: Connection[Any], held: Held, wanted: NewIndex, config: Jsonb) -> UUID | None:
    index_id, _ = tools.find_or_make(connection, wanted)
    index_switch.end_update(connection, held)
    index_switch.begin_update(connection, held.id, index_id, config)
    return tasks.create(
        connection,
        tool_id=held.id,
        index_id=index_id,
        folder_node_id=wanted.folder_node_id,
        kind=TaskKind.UPDATE,
    )


def _hold(connection: Connection[Any], tool_id: UUID) -> Held:
    held = index_switch.lock_tool(connection, tool_id)
    if held is None:
        raise NotFound("The tool was deleted meanwhile.")
    return held
