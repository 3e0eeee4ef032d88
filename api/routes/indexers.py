"""The indexers of the installation, and the calls that every derived index has."""

from __future__ import annotations

from enum import Enum
from typing import get_type_hints

from fastapi import APIRouter
from pydantic import BaseModel

from api.http.bodies import JsonRoute
from api.http.dependencies import Caller, CallerDep, ResourcesDep, ToolDep, known_caller, needs_space
from api.http.described_errors import raises
from api.indexers import Subject, subject_of
from api.indexers.as_seen import as_seen
from api.indexers.registry import DERIVED, INDEXERS, RegisteredIndexer, info
from schemas.indexer import IndexerInfo
from schemas.summary_tree import BuildRequest
from schemas.tool import Tool
from worker.resources import Resources
from worker.state.index import tool_actions

router = APIRouter(route_class=JsonRoute)


@router.get("/api/indexers", tags=["indexers"], dependencies=[known_caller])
def list_indexers(resources: ResourcesDep) -> list[IndexerInfo]:
    """List the kinds of index that a tool can have, with the schema of their config."""
    return [info(row, resources) for row in INDEXERS]


class IndexerCalls:
    """The calls of one derived index."""

    def __init__(self, row: RegisteredIndexer) -> None:
        self.row = row
        self.estimate_model = get_type_hints(row.indexer.estimate)["return"]
        self.status_model = get_type_hints(row.indexer.status)["return"]

    def get(self, tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> BaseModel:
        """Get the state of this index, and the progress of its newest build. Without one, every number is 0."""
        return self._status(subject_of(tool), tool, caller, resources)

    def estimate(self, tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> BaseModel:
        """Estimate a build of this whole index, without asking anyone. What is cached costs nothing again."""
        return as_seen(self.row.indexer.estimate(resources, subject_of(tool)), caller, may_hide=tool.may_hide)

    def build(
        self, tool: ToolDep, caller: CallerDep, resources: ResourcesDep, body: BuildRequest | None = None
    ) -> BaseModel:
        """Build this index, and keep it up to date from then on: sets `enabled` in its config.

        If a build is open, one more follows it. A build waits until no task indexes the folder.
        """
        subject = self._set_enabled(resources, tool, enabled=True)
        self.row.indexer.build(resources, subject, "full" if body and body.full else "again")
        return self._status(subject, tool, caller, resources)

    def delete(self, tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> BaseModel:
        """Delete this index, unless another tool shares it: clears `enabled` in its config."""
        subject = self._set_enabled(resources, tool, enabled=False)
        self.row.indexer.drop(resources, subject)
        return self._status(subject, tool, caller, resources)

    def _status(self, subject: Subject, tool: Tool, caller: Caller, resources: Resources) -> BaseModel:
        return as_seen(self.row.indexer.status(resources, subject), caller, may_hide=tool.may_hide)

    def _set_enabled(self, resources: Resources, tool: Tool, *, enabled: bool) -> Subject:
        part = self.row.of(tool.config)
        if enabled:
            self.row.check(resources, part)
        if part.enabled != enabled:
            part = part.model_copy(update={"enabled": enabled})
            stored = part.model_dump(exclude_defaults=True)
            tool_actions.set_derived(resources.pool, tool.tool_id, self.row.name, stored)
        return subject_of(tool, tool.config.model_copy(update={self.row.name: part}))


def add_calls(to: APIRouter, calls: IndexerCalls) -> None:
    """Add the calls of a derived index."""
    row, refused = calls.row, raises(*calls.row.errors)
    place, status = f"/api/tools/search/{{tool_id}}/{row.name}", calls.status_model
    tags: list[str | Enum] = [row.topic]
    to.get(f"{place}/status", name=f"get_{row.name}", tags=tags, response_model=status)(calls.get)
    to.get(
        f"{place}/estimate",
        name=f"estimate_{row.name}",
        tags=tags,
        response_model=calls.estimate_model,
        openapi_extra=refused,
    )(calls.estimate)
    to.post(
        f"{place}/build",
        name=f"build_{row.name}",
        tags=tags,
        response_model=status,
        status_code=202,
        dependencies=[needs_space],
        openapi_extra=refused,
    )(calls.build)
    to.delete(place, name=f"delete_{row.name}", tags=tags, response_model=status, status_code=202)(calls.delete)


for each in DERIVED:
    add_calls(router, IndexerCalls(each))
