"""One query over several tools of a project, or over paths."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from schemas import fields
from schemas.queries.hit_fields import FIELDS_DESCRIPTION, HitField
from schemas.queries.search import (
    MAX_NAMES,
    Asked,
    Coverage,
    Hit,
    Mode,
    Note,
    SearchRequest,
    Step,
)

#: Maximum tools of one request.
MAX_TOOLS = 16
#: Maximum paths of one request.
MAX_PATHS = 64

Path = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class Across(SearchRequest):
    """A search and where to run it: in tools, or at paths."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "project_id": "project-1",
                    "query": "token refresh",
                    "tool_ids": ["7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11", "f3b8f3a4-8d1e-4a53-b1c4-6f0f4f1a2b22"],
                },
                {"project_id": "project-1", "query": "token refresh", "paths": ["/srv/docs", "s3://docs/handbook"]},
                {"project_id": "project-1", "query": "token refresh", "paths": ["/docs/readme.md"], "top_k": 3},
                {"project_id": "project-1", "query": "token", "paths": ["/srv/docs"], "index_missing": True},
            ]
        },
    )

    project_id: str = Field(min_length=1, max_length=200, description="Project to search.")
    tool_ids: list[UUID] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_TOOLS,
        description="Tools to search. Send either `tool_ids` or `paths`.",
    )
    paths: list[Path] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_PATHS,
        description="Instead of `tool_ids`: absolute paths of local files and folders, `s3://bucket/prefix`, or nodes "
        "by their ids (file_id_path) or names. Each path is searched in the most specific index that covers it. A "
        "folder above several indexes is searched in each of them. A path that no index covers is read directly.",
    )

    index_missing: bool = Field(
        default=False,
        description="Create a tool over each folder among `paths` that no tool covers; `notes` name them.",
    )
    fields: list[HitField | Literal["tool_id"]] | None = Field(
        default=None, min_length=1, max_length=MAX_NAMES, description=FIELDS_DESCRIPTION
    )

    @property
    def unset_fields(self) -> set[str]:
        """See `SearchRequest`. Only paths may be answered with whole files."""
        return super().unset_fields | (set() if self.paths is not None else {"whole"})

    @model_validator(mode="after")
    def _tools_or_paths(self) -> Self:
        if (self.tool_ids is None) == (self.paths is None):
            raise ValueError("send either tool_ids or paths")
        if self.index_missing and self.paths is None:
            raise ValueError("index_missing needs paths; send paths instead of tool_ids")
        return self


class PlacedHit(Hit):
    """A hit and the tool that found it.

    Without a tool, `file_path` is the whole path. `score` is computed from the rank among the hits of all tools.
    """

    tool_id: UUID | None = Field(
        description="Tool that found it; null for a file that was read without an index.",
        examples=["7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11"],
    )


class ToolStep(Step):
    """One step of one tool's search, as it is streamed."""

    tool_id: fields.ToolId


class Searched(BaseModel):
    """One tool's part of an answer."""

    tool_id: fields.ToolId
    name: str = Field(description="Name of the tool.", examples=["docs"])
    took_ms: fields.TookMs
    total_results: int = Field(description="Number of this tool's hits before they are merged.", examples=[10])
    coverage: Coverage = Field(description="How much of this tool's folder was searched.")
    calibrated: bool = Field(
        description="Whether this tool's own scores, to which `min_score` applies, are probabilities.",
        examples=[True],
    )
    notes: list[Note] = Field(description="What the caller should know of this tool's part.", examples=[[]])
    trace: list[Step] | None = Field(
        description="Steps of this tool's search; null unless `trace` was requested.", examples=[None]
    )


class AcrossAnswer(BaseModel):
    """The hits of all tools, best first."""

    query: Asked
    mode: Mode = Field(description="How the tools were searched.")
    total_results: int = Field(description="Number of hits in `results`.", examples=[1])
    took_ms: fields.TookMs
    coverage: Coverage = Field(description="The sum over the tools that answered.")
    notes: list[Note] = Field(
        description="Tools that failed or were too slow, and what was not indexed.", examples=[[]]
    )
    calibrated: Literal[False] = Field(
        default=False,
        description="Always false, since a score follows from ranks. `tools` say it of each tool's own scores.",
    )
    tools: list[Searched] = Field(description="Each tool's part, also of those without hits.")
    results: list[PlacedHit] = Field(description="The hits, best first.")
