"""User actions on an existing tool: reindex, cancel, retry, change the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from schemas.errors import Conflict, NotFound
from schemas.status import TaskKind
from schemas.tool import ToolConfig
from worker.state.access import acl
from worker.state.index import changes, index_switch, tasks, tools
from worker.state.index.index_switch import LockedTool
from worker.state.index.tasks import RetryTask
from worker.state.index.tools import NewIndex
from worker.state.pool import Pool, again_if_locked
from worker.state.queries import load

#: Fields of a config that take effect at once, even while another index is being built.
AT_ONCE = ["metadata", "metadata_from", "rules"]

CANCELLED = "The change was cancelled."
CHANGES_INDEX = "Another index is being built for the tool; renew the text once that has ended, or cancel it."
GONE = "The tool was deleted in the meantime; create a new one."


class ConfigChanged(Exception):
    """Raised when another request changed the config or the index on which a change is based."""


log = structlog.get_logger()

_SQL = load("index/tools")


@again_if_locked
def reindex(
    pool: Pool, tool_id: UUID, *, full: bool, allow_removals: bool, paths: Sequence[str] | None = None
) -> UUID | None:
    """Start an incremental task and return its id, or request a follow-up of the open one and return None.

    It lists only `paths`, if given, unless the last task left work undone. An index that is being built for the tool is
    brought up to date as well. Raises `NotFound`.
    """
    with pool.connection() as connection:
        tool = _lock(connection, tool_id)
        if tool.next_index_id is not None:
            tasks.request_rerun(connection, tool.next_index_id, tool_id, allow_removals=allow_removals, paths=paths)
        if tasks.request_rerun(
            connection, tool.index_id, tool_id, full=full, allow_removals=allow_removals, paths=paths
        ):
            return None
        return tasks.create(
            connection,
            tool_id=tool_id,
            index_id=tool.index_id,
            folder_node_id=tool.folder_node_id,
            kind=TaskKind.REINDEX,
            full=full,
            allow_removals=allow_removals,
            paths=paths,
        )


@again_if_locked
def rebuild(pool: Pool, tool_id: UUID, new_index: NewIndex, *, base: UUID, renews_text: bool = False) -> UUID | None:
    """Build another index in place of a tool's, and let all tools of that index switch to it once it is ready.

    Returns the task to send, if one was started. An index that is being built for the tool is brought up to date
    instead. Raises `NotFound`, `ConfigChanged` if the tool's index is no longer `base`, and `Conflict` if the one that
    is being built does not have the form of text that is asked for.
    """
    with pool.connection() as connection:
        tool = _lock(connection, tool_id)
        if tool.index_id != base:
            raise ConfigChanged
        if tool.next_index_id is not None:
            if renews_text and tool.next_identity != new_index.identity:
                raise Conflict(CHANGES_INDEX)
            tasks.request_rerun(connection, tool.next_index_id, tool_id)
            return None
        index_id, _ = tools.find_or_make(connection, new_index)
        index_switch.begin_updates(connection, tool.index_id, index_id)
        return tasks.create(
            connection,
            tool_id=tool_id,
            index_id=index_id,
            folder_node_id=new_index.folder_node_id,
            kind=TaskKind.UPDATE,
        )


def cancel(pool: Pool, tool_id: UUID, only: UUID | None = None) -> None:
    """End the task over the tool's index, and give up the index that is being built for it. Raises `NotFound`.

    With `only`, nothing happens beyond that task and the index that it builds.

    First the work stops. If another session holds the task's row, the sweep ends the task as soon as it is free.
    """
    with pool.connection() as connection:
        index_switch.shut_out(connection, tool_id, only)
    try:
        _end_work(pool, tool_id, only)
    except LockNotAvailable as error:
        log.warning("cancelled; a lock delays the end of the task", tool_id=str(tool_id), error=str(error))


def _end_work(pool: Pool, tool_id: UUID, only: UUID | None) -> None:
    with pool.connection() as connection:
        tool = index_switch.lock_tool(connection, tool_id)
        if tool is None:
            raise NotFound(GONE)
        if only is None or tasks.open_over(connection, tool.next_index_id) == only:
            index_switch.end_update(connection, tool, CANCELLED)
        _stop(connection, tool.index_id, only)


@again_if_locked
def retry(pool: Pool, tool_id: UUID) -> RetryTask | None:
    """Start a task over failed or open files. Returns None if there are none, or a task is already open.

    An open task gets a follow-up, which takes up its failed files. Raises `NotFound`.
    """
    with pool.connection() as connection:
        tool = _lock(connection, tool_id)
        if tasks.request_rerun(connection, tool.index_id, tool_id):
            return None
        return tasks.retry(connection, tool_id=tool_id, index_id=tool.index_id, folder_node_id=tool.folder_node_id)


@again_if_locked
def rename(pool: Pool, tool_id: UUID, name: str) -> None:
    """Give a tool another name."""
    with pool.connection() as connection:
        connection.execute(_SQL["rename"], {"tool_id": tool_id, "name": name})


@again_if_locked
def set_derived(pool: Pool, tool_id: UUID, name: str, part: Mapping[str, object]) -> None:
    """Change only the part of a tool's config that configures one derived index."""
    with pool.connection() as connection:
        connection.execute(_SQL["set_derived"], {"tool_id": tool_id, "name": name, "part": Jsonb({**part})})


def index_id(pool: Pool, tool_id: UUID) -> UUID | None:
    """Return the index that a tool answers from; None if the tool is gone."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["index_id"], {"tool_id": tool_id}).fetchone()
        return row[0] if row else None


@again_if_locked
def change_config(
    pool: Pool, tool_id: UUID, config: ToolConfig, new_index: NewIndex | None, *, base: ToolConfig | None = None
) -> UUID | None:
    """Change a tool's config: at once if it leads to the same index, otherwise as soon as the wanted index is ready.

    Without `new_index` the config leads to the index that was wanted last.

    The fields of `AT_ONCE` always take effect at once, except for sidecars. Returns the task to send, if one was
    started. An index being built for an earlier change is given up. Raises `NotFound`, and `ConfigChanged` if the last
    wanted config is not `base`.
    """
    stored = tools.stored(config)
    values: dict[str, object] = {"tool_id": tool_id, "config": stored}
    with pool.connection() as connection:
        tool = _lock(connection, tool_id)
        if base is not None and base != ToolConfig.model_validate(tool.wanted_config):
            raise ConfigChanged
        values |= {"at_once": AT_ONCE, "now": _at_once(tool, config)}
        acl.note_rules(connection, tool.project_id, config.metadata_view.lists)
        last = tool.next_identity or tool.identity
        identity = last if new_index is None else new_index.identity
        if identity == tool.next_identity:
            connection.execute(_SQL["set_next_config"], values)
            return None
        if new_index is None or identity == tool.identity:
            if config.auto_reindex:
                changes.follow_from_now(connection, tool_id)
            connection.execute(_SQL["set_config"], values)
            index_switch.end_update(connection, tool)
            return None
        task_id = _build(connection, tool, new_index, stored)
        connection.execute(_SQL["set_next_config"], values)
        return task_id


def _at_once(tool: LockedTool, config: ToolConfig) -> Jsonb:
    """Return the part of a config that takes effect at once. Sidecars wait for the switch to an index with them."""
    sources: list[str] = [source for source in dict.fromkeys(config.metadata_from) if source != "sidecars"]
    if tool.has_sidecars:
        sources.append("sidecars")
    now = config.model_copy(update={"metadata_from": sources})
    return Jsonb(now.model_dump(exclude_defaults=True, include={*AT_ONCE}))


def _build(connection: Connection[Any], tool: LockedTool, new_index: NewIndex, config: Jsonb) -> UUID | None:
    index_id, _ = tools.find_or_make(connection, new_index)
    index_switch.end_update(connection, tool)
    index_switch.begin_update(connection, tool.id, index_id, config)
    return tasks.create(
        connection,
        tool_id=tool.id,
        index_id=index_id,
        folder_node_id=new_index.folder_node_id,
        kind=TaskKind.UPDATE,
    )


def _lock(connection: Connection[Any], tool_id: UUID) -> LockedTool:
    tool = index_switch.lock_tool(connection, tool_id)
    if tool is None:
        raise NotFound(GONE)
    if tool.is_stopping:
        # a new request does not concern the task that a cancel stopped
        _stop(connection, tool.index_id)
    return tool


def end_stopped(pool: Pool, task_id: UUID, index_id: UUID) -> bool:
    """End a task that a cancel or a delete left open, unless it, its project or its index is locked."""
    with pool.connection() as connection:
        is_free = index_switch.try_lock_index(connection, index_id) and tasks.lock_row(connection, task_id, wait=False)
        return is_free and _stop(connection, index_id, task_id)


def _stop(connection: Connection[Any], index_id: UUID, only: UUID | None = None) -> bool:
    stopped = tasks.cancel(connection, index_id, only)
    if stopped or only is None:
        changes.let_be(connection, index_id, stopped=stopped)
    return stopped
