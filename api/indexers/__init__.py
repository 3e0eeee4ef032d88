"""The kinds of index that a folder can have, each behind the same five calls.

`chunks` is the index that every tool has. The others are derived from it, where a tool's config enables them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from pydantic import BaseModel

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from schemas.content.source import AnySource
from schemas.queries.search import Answer, Query, Step
from schemas.tool import Tool, ToolConfig
from worker.resources import Resources

#: What to build. due: only what the config and finished runs demand; again: once more; full: without what is kept.
Build = Literal["due", "again", "full"]

#: The id of a tool, and of an index, that does not exist yet.
NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Subject:
    """The tool for which an indexer works."""

    project_id: str
    source: AnySource
    config: ToolConfig
    tool_id: UUID = NO_ID
    index_id: UUID = NO_ID


def subject_of(tool: Tool, config: ToolConfig | None = None) -> Subject:
    """The subject of a tool, with its own config or a changed one."""
    return Subject(tool.project_id, tool.source, config or tool.config, tool.tool_id, tool.index.index_id)


class Indexer(Protocol):
    """One kind of index. A module with these functions is one.

    The models that `estimate` and `status` are annotated with describe the answers over HTTP.
    """

    def estimate(self, resources: Resources, subject: Subject, /) -> BaseModel:
        """Estimate the cost of a build, without paying anyone."""

    def build(self, resources: Resources, subject: Subject, what: Build, /) -> None:
        """Start a build, or request one more after the open one. Never waits for it. Calling it twice does no harm."""

    def status(self, resources: Resources, subject: Subject, /) -> BaseModel:
        """The state of the live index, and the progress of the newest build."""

    def answer(
        self,
        resources: Resources,
        tool_id: UUID,
        index: SeenIndex,
        query: Query,
        /,
        *,
        disconnect: Disconnect,
        on_step: Callable[[Step], None],
    ) -> Answer:
        """Check a query before it costs anything, and answer it. Call `on_step` after each step."""

    def drop(self, resources: Resources, subject: Subject, /) -> None:
        """Delete what the tool no longer wants, unless another tool shares it. Tool and index may be gone already."""
