"""A query and its answer."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Names = list[Annotated[str, StringConstraints(min_length=1, max_length=1024)]]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)]


class Filters(BaseModel):
    """All must hold; the values of a list are alternatives."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(default=None, min_length=1, description="Glob over file_path; ** crosses folders.")
    file_ids: Names | None = Field(default=None, min_length=1, description="file_id or file_node_id values.")
    types: Names | None = Field(default=None, min_length=1)
    languages: Names | None = Field(default=None, min_length=1)
    symbols: Names | None = Field(default=None, min_length=1)
    node_types: Names | None = Field(default=None, min_length=1)
    scope: str | None = Field(default=None, min_length=1)
    json_pointer: str | None = Field(default=None, min_length=1, description="A pointer, with everything below it.")
    level: int | None = Field(default=None, ge=0, le=1000)


class Query(BaseModel):
    """What to look for."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": "authentication JWT token"},
                {"query": "PostgreSQL connection", "top_k": 3, "mode": "keyword", "filters": {"path": "**/*.json"}},
            ]
        },
    )

    query: Text
    top_k: int = Field(default=10, ge=1, le=10_000)
    mode: Literal["hybrid", "vector", "keyword"] = "hybrid"
    filters: Filters = Field(default_factory=Filters)
    include_unembedded: bool = Field(
        default=False, description="Whole files outside the token bounds follow, up to UNEMBEDDED_MAX_CHARS."
    )


class Hit(BaseModel):
    """One chunk of an answer. `score` is 0 to 1; `distance` is cosine, null if only keywords matched.

    `whole` is a file that is not embedded, as `include_unembedded` asks for it: `chunk_text` is all of it, `chunk_id`
    is its first chunk's, and its score that of its words, 0 if none of the query's is among them.
    """

    chunk_id: UUID
    chunk_text: str
    score: float
    distance: float | None
    file_node_id: str
    file_id: UUID
    file_id_path: str
    file_path: str
    file_name: str
    file_type: str | None
    title: str | None
    url: str | None = None
    json_pointer: str | None
    chunk_index: int
    total_chunks: int
    content_hash: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    language: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    level: int
    page: int | None = Field(default=None, description="Page of a PDF document, from 1.")
    embedded: bool
    whole: bool = False
    stale: bool


class Coverage(BaseModel):
    """How much of the folder the answer was looked for in."""

    indexed_files: int
    total_files: int


class Answer(BaseModel):
    """The hits of a query, best first."""

    query: str
    mode: Literal["hybrid", "vector", "keyword"]
    total_results: int
    took_ms: float
    coverage: Coverage
    results: list[Hit]


class Problem(BaseModel):
    """An error, RFC 9457. `code` is stable, `detail` is a sentence that names the remedy."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    errors: list[dict[str, object]] | None = None
