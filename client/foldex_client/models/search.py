"""Searches and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import Field

from foldex_client.models.base import Model, Note
from foldex_client.models.tools import Placed

Mode = Literal["hybrid", "vector", "keyword"]
Rerank = Literal["none", "boost", "model", "llm"]
TreeSearch = Literal["off", "collapsed", "tree_traversal"]
Refresh = Literal["none", "if_stale", "wait"]


#: Conditions by key: a value, a list of alternatives, or an object of operators.
MetadataFilter = Mapping[str, Any]


class Filters(TypedDict, total=False):
    """All filters must match; the values of a list are alternatives."""

    path: str
    file_ids: list[str]
    types: list[str]
    languages: list[str]
    symbols: list[str]
    node_types: list[str]
    scope: str
    json_pointer: str
    level: int
    metadata: MetadataFilter
    modified_after: datetime | str
    modified_before: datetime | str


class Context(TypedDict, total=False):
    """The place where the caller is working: hits near it rank higher, and the definition itself lower."""

    path: str
    symbol: str


class SearchOptions(TypedDict, total=False):
    """The options of every search. `fields` are those that each hit has; by default all but those of unset options."""

    top_k: int | None
    mode: Mode | None
    filters: Filters | None
    rerank: Rerank | None
    context: Context | None
    group_by_file: bool | None
    before: int | None
    after: int | None
    min_score: float | None
    explain: bool | None
    trace: bool | None
    fields: Sequence[str] | None


class ToolSearchOptions(SearchOptions, total=False):
    """The options of a search in one tool."""

    refresh: Refresh | None
    include_unembedded: bool | None
    tree: TreeSearch | None
    beam: int | None
    expand_to_leaves: bool | None


class AcrossSearchOptions(SearchOptions, total=False):
    """The options of a search across tools or paths."""

    index_missing: bool | None


class Piece(Model):
    """A chunk next to a hit, or one that a hit is merged from."""

    chunk_id: str
    chunk_text: str
    chunk_index: int
    start_line: int
    end_line: int
    start_char: int
    end_char: int


class ScoredPiece(Piece):
    """One of the chunks that a file's hit is merged from."""

    score: float


class ListedChunk(Piece):
    """One chunk of a file, as a list shows it."""

    tokens: int
    context: str
    content_hash: str
    title: str | None
    json_pointer: str | None
    language: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    level: int
    page: int | None
    embedded: bool


class FileChunk(Piece, Placed):
    """A chunk with its location and its description."""

    file_type: str | None
    title: str | None
    json_pointer: str | None
    total_chunks: int
    language: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    page: int | None = None
    stale: bool


class Picture(Model):
    """A page as PNG in base64. `boxes` hold the chunk's lines: left, top, width and height in shares of the page."""

    page: int
    png: str
    width: int
    height: int
    boxes: list[list[float]]


class Around(Model):
    """A chunk with the chunks before and after it, in the file's order."""

    chunk: FileChunk
    before: list[Piece]
    after: list[Piece]
    picture: Picture | None = None


#: What a field holds that the service was not asked for.
_NOT_CHOSEN: Any = None


class Hit(Model):
    """One chunk of an answer. `score` is 0 to 1; `distance` is cosine.

    A field is None if the search chose other `fields`, and so is a field of an option that is not set.
    """

    chunk_id: str = _NOT_CHOSEN
    chunk_text: str = _NOT_CHOSEN
    score: float = _NOT_CHOSEN
    distance: float | None = None
    file_node_id: str = _NOT_CHOSEN
    file_id: str = _NOT_CHOSEN
    file_id_path: str = _NOT_CHOSEN
    file_path: str = _NOT_CHOSEN
    file_name: str = _NOT_CHOSEN
    file_type: str | None = None
    title: str | None = None
    url: str | None = None
    metadata: dict[str, Any] | None = None
    json_pointer: str | None = None
    chunk_index: int = _NOT_CHOSEN
    total_chunks: int = _NOT_CHOSEN
    content_hash: str = _NOT_CHOSEN
    start_line: int = _NOT_CHOSEN
    end_line: int = _NOT_CHOSEN
    start_char: int = _NOT_CHOSEN
    end_char: int = _NOT_CHOSEN
    language: str | None = None
    symbol: str | None = None
    node_type: str | None = None
    scope: str | None = None
    level: int = _NOT_CHOSEN
    page: int | None = None
    embedded: bool = _NOT_CHOSEN
    whole: bool = False
    stale: bool = _NOT_CHOSEN
    also_in: list[str] = Field(default_factory=list)
    matched_queries: list[str] = Field(default_factory=list)
    pieces: list[ScoredPiece] | None = None
    before: list[Piece] | None = None
    after: list[Piece] | None = None
    explain: dict[str, float] | None = None


class TreeHit(Hit):
    """A hit, and the summary that led to it: None unless the query set `tree`."""

    raptor_expanded_from: str | None = None
    raptor_summary_preview: str | None = None


class SummaryHit(Model):
    """A summary that a query found."""

    node_id: str
    level: int
    text: str
    score: float
    file_paths: list[str]


class PlacedHit(Hit):
    """A hit and the tool that found it; None for a file that was read without an index."""

    tool_id: str | None = None


class Coverage(Model):
    """The share of the folder that was searched. The numbers are None if the caller may not read all files."""

    indexed_files: int | None
    total_files: int | None
    stale_files: int | None = None
    vector_share: float | None = None


class Step(Model):
    """One step of a search, as shown by `trace`."""

    step: str
    took_ms: float
    found: int | None = None
    detail: str | None = None


class Found(Model):
    """Fields of every answer to a query."""

    query: str
    mode: str
    total_results: int
    took_ms: float
    coverage: Coverage
    notes: list[Note] = Field(default_factory=list)
    calibrated: bool = False


class Answer(Found):
    """The hits of a query, best first."""

    trace: list[Step] | None = None
    results: list[TreeHit]
    summaries: list[SummaryHit] = Field(default_factory=list)


class Searched(Model):
    """One tool's part of an answer."""

    tool_id: str
    name: str
    took_ms: float
    total_results: int
    coverage: Coverage
    calibrated: bool = False
    notes: list[Note]
    trace: list[Step] | None


class AcrossAnswer(Found):
    """The hits of all tools, best first. `notes` name the tools that failed or were too slow."""

    tools: list[Searched]
    results: list[PlacedHit]


class MetadataValue(Model):
    """A value of a key, and the number of files that have it."""

    value: str | int | float | bool
    files: int


class MetadataKey(Model):
    """A key that searches can filter by, with its most frequent values."""

    key: str
    type: str
    files: int
    mistyped_files: int
    values: list[MetadataValue]
    has_more: bool


class MetadataKeys(Model):
    """The keys that a tool declares. `warning` counts files with values of other types."""

    items: list[MetadataKey]
    warning: str | None = None
    truncated: bool = False
