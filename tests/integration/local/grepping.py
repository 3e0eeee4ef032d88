"""Greps a tool over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from api.http.sight import SeenIndex, seen
from schemas.content.acl import EVERYTHING
from tests.service import TOOLS, Service
from worker.resources import Resources
from worker.state.index import tools


def grep(running: Service, tool: str, pattern: str, **more: Any) -> dict[str, Any]:
    return running.post(f"{TOOLS}/{tool}/grep", {"pattern": pattern, **more}, 200)


def places(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(hit["file_path"], hit["line"], hit["column"]) for hit in answer["hits"]]


def index_of(resources: Resources, tool: str) -> SeenIndex:
    index = tools.index_of_tool(resources.pool, UUID(tool))
    assert index is not None
    return seen(index, EVERYTHING)
