"""Tasks as their tools show them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from psycopg.rows import class_row

from schemas.fields import HIDDEN
from schemas.status import Status
from worker.state.pool import Pool
from worker.state.queries import load

_SQL = load("index/statuses")


class TaskOfTool(Status):
    """A task with its own warning, and the inputs of its remaining time and other warnings."""

    # a row has these counts; the estimates are computed from them later
    total_chunks: int
    embedded_chunks: int
    eta_seconds: float | None = None
    words_eta_seconds: float | None = None
    project_id: Annotated[str, HIDDEN]
    tool_created_at: Annotated[datetime, HIDDEN]
    vector_store: Annotated[str, HIDDEN]
    dimensions: Annotated[int, HIDDEN]
    #: Seconds since the last sweep.
    unwatched_seconds: Annotated[float, HIDDEN]
    listing_warning: Annotated[str | None, HIDDEN]
    cut_texts: Annotated[bool, HIDDEN]
    #: The tool's limit of tokens, if the run would have exceeded it.
    passed_limit: Annotated[int | None, HIDDEN]
    #: Time since which the task has been active.
    worked_from: Annotated[datetime | None, HIDDEN]
    #: Bytes of texts and documents, and number of images, whose words are not read yet. Each file adds some bytes.
    text_left: Annotated[int, HIDDEN]
    document_left: Annotated[int, HIDDEN]
    image_left: Annotated[int, HIDDEN]
    #: The same amounts that the task itself has read, and the milliseconds that took.
    text_read: Annotated[int, HIDDEN]
    document_read: Annotated[int, HIDDEN]
    image_read: Annotated[int, HIDDEN]
    text_ms: Annotated[int, HIDDEN]
    document_ms: Annotated[int, HIDDEN]
    image_ms: Annotated[int, HIDDEN]
    #: Live chunks that still need a vector.
    vectors_due: Annotated[int, HIDDEN]
    #: Whether some callers may not read all files.
    may_hide: Annotated[bool, HIDDEN]
    #: Whether the tool names its model or its dimensions.
    names_model: Annotated[bool, HIDDEN]


def newest_of_tool(pool: Pool, tool_id: UUID) -> TaskOfTool | None:
    """Return the task that describes the state of a tool's index; None if the tool is gone."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(TaskOfTool))
        return cursor.execute(_SQL["newest_of_tool"], {"tool_id": tool_id}).fetchone()


def newest_of_tools(
    pool: Pool, project_id: str | None, after: tuple[datetime, UUID] | None, limit: int
) -> list[TaskOfTool]:
    """List what `newest_of_tool` returns for the tools of a project (None: of all projects), oldest tool first."""
    time, id_ = after or (None, None)
    values = {"project_id": project_id, "after_time": time, "after_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(TaskOfTool)).execute(_SQL["newest_of_tools"], values).fetchall()


def history(pool: Pool, tool_id: UUID, before: tuple[datetime, UUID] | None, limit: int) -> list[TaskOfTool]:
    """List the tasks over a tool's index, and over the index being built to replace it; newest first."""
    time, id_ = before or (None, None)
    values = {"tool_id": tool_id, "before_time": time, "before_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(TaskOfTool)).execute(_SQL["history"], values).fetchall()
