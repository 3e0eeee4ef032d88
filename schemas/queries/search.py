"""A query and its answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from schemas import fields
from schemas.derived import TreeSearch
from schemas.queries.hit_fields import FIELDS_DESCRIPTION, HitField
from schemas.queries.metadata import FILTER_DESCRIPTION, FILTER_EXAMPLE, MetadataFilter
from schemas.queries.times import Times

#: A missing value, or null, means empty.
_NULL_IS_EMPTY = BeforeValidator(lambda value: {} if value is None else value)
#: Maximum entries of a list in a request. Each costs time, and the answer repeats those that match nothing.
MAX_NAMES = 1000

Names = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=1024)]], Field(max_length=MAX_NAMES)]
LowercaseNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=1024, to_lower=True)]], Field(max_length=MAX_NAMES)
]


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)]
Mode = Literal["hybrid", "vector", "keyword"]
Rerank = Literal["none", "boost", "model", "llm"]
Refresh = Literal["none", "if_stale", "wait"]
Asked = Annotated[
    str, Field(description="The query; the first one if there are several.", examples=["authentication JWT token"])
]
Score = Annotated[float, Field(description="0 to 1, comparable within one answer; higher is better.", examples=[0.81])]
ContentHash = Annotated[
    str,
    Field(
        description="Hash of the embedded text: the chunk's text after its context and, for code, its file's name.",
        examples=["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ),
]
Level = Annotated[int, Field(description="0 for chunks of files; null: every level.", examples=[0])]
IsEmbedded = Annotated[
    bool, Field(description="Whether the chunk has a vector, so that it is found by meaning.", examples=[True])
]

#: Maximum queries in one request. With three legs each, that is two calls of a store that takes 16 at a time.
MAX_QUERIES = 8
#: Maximum characters of the whole files that one answer adds.
UNEMBEDDED_CHARACTERS = 50_000


class Filters(Times):
    """All filters must match; the values of a list are alternatives."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="A file_path, or a glob over it. `**` crosses folders. With `!`: all other files. Null: every one.",
    )
    file_ids: Names | None = Field(
        default=None, min_length=1, description="file_id or file_node_id values; null: every file."
    )
    types: LowercaseNames | None = Field(
        default=None,
        min_length=1,
        description="file_type values (code, pdf), languages (python), extensions (py, .py); null: every type.",
    )
    languages: LowercaseNames | None = Field(
        default=None, min_length=1, description="Languages of code; null: every one."
    )
    symbols: Names | None = Field(default=None, min_length=1, description="Names of definitions; null: every chunk.")
    node_types: Names | None = Field(default=None, min_length=1, description="Kinds of definitions; null: every chunk.")
    scope: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Enclosing definitions, such as `outer/inner`; null: everywhere.",
    )
    json_pointer: str | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        description="A JSON pointer; includes everything below it. Null: everywhere.",
    )
    level: int | None = Field(default=None, ge=0, le=1000, description="0 for chunks of files; null: every level.")
    metadata: MetadataFilter = Field(default=None, description=FILTER_DESCRIPTION, examples=[FILTER_EXAMPLE])


class Context(BaseModel):
    """The place where the caller is working: hits near it rank higher, and the definition itself lower."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(
        default=None, min_length=1, max_length=4096, description="A file_path, or a folder; null: unknown."
    )
    symbol: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="The definition that the caller is working on; null: unknown.",
    )


class SearchRequest(BaseModel):
    """Fields that every search takes, over one tool or over several."""

    model_config = ConfigDict(extra="forbid")

    query: Text | None = Field(default=None, description="What to search for. Send either `query` or `queries`.")
    queries: list[Text] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_QUERIES,
        description="Several queries instead of `query`. Chunks that several of them find rank higher.",
    )
    top_k: int = Field(default=10, ge=1, le=10_000, description="Maximum number of hits.")
    mode: Mode = Field(default="hybrid", description="vector: by meaning; keyword: by words; hybrid: by both.")
    filters: Annotated[Filters, _NULL_IS_EMPTY] = Field(
        default_factory=Filters, description="Search only what matches; default: everything."
    )
    rerank: Rerank | None = Field(
        default=None,
        description="boost: by properties of files and symbols (default for hybrid); model: by RERANK_MODEL; "
        "llm: by DEFAULT_LLM_MODEL; none: no reranking (default for the other modes).",
    )
    context: Annotated[Context, _NULL_IS_EMPTY] = Field(
        default_factory=Context,
        description="Where the caller is working; hits near it rank higher, and the definition itself lower.",
    )
    group_by_file: bool = Field(
        default=False, description="Return one hit per file, with its chunks in the file's order."
    )
    before: int = Field(default=0, ge=0, le=10, description="Number of neighbouring chunks to show before each hit.")
    after: int = Field(default=0, ge=0, le=10, description="Number of neighbouring chunks to show after each hit.")
    min_score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Minimum `score` of a hit; null: none. Over several tools: its score in its own tool, before they "
        "are merged.",
        examples=[0.3],
    )
    explain: bool = Field(default=False, description="Show the components of each score.")
    trace: bool = Field(
        default=False, description="Show the steps of the search: what each found and how long it took."
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.query is None) == (self.queries is None):
            raise ValueError("send either query or queries")
        return self

    @property
    def unset_fields(self) -> set[str]:
        """The fields of a hit that only options fill that this request does not set."""
        is_set = {
            "matched_queries": self.queries is not None,
            "pieces": self.group_by_file,
            "before": self.before > 0,
            "after": self.after > 0,
            "explain": self.explain,
        }
        return {name for name, value in is_set.items() if not value}

    @property
    def texts(self) -> list[str]:
        """All queries in their order, without duplicates."""
        return list(dict.fromkeys(self.queries or [self.query or ""]))

    @property
    def ranking(self) -> Rerank:
        """The options for ranking hits once they are found."""
        return self.rerank or ("boost" if self.mode == "hybrid" else "none")


class Query(SearchRequest):
    """A search in one tool's folder."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": "authentication JWT token"},
                {"query": "PostgreSQL connection", "top_k": 3, "mode": "keyword", "filters": {"path": "**/*.json"}},
                {"queries": ["class TokenStore", "where are tokens refreshed?"], "group_by_file": True},
            ]
        },
    )

    refresh: Refresh = Field(
        default="none",
        description=(
            "Compare the folder with the index first. if_stale: reindex what changed without waiting; wait: "
            "reindex and wait, for at most SEARCH_SECONDS."
        ),
    )
    include_unembedded: bool = Field(
        default=False,
        description=f"Append whole files outside the token bounds, up to {UNEMBEDDED_CHARACTERS:,} characters.",
    )
    fields: list[HitField] | None = Field(
        default=None, min_length=1, max_length=MAX_NAMES, description=FIELDS_DESCRIPTION
    )
    tree: TreeSearch = Field(
        default="off",
        description="Search the tree of summaries by meaning. collapsed: all its levels at once; tree_traversal: "
        "from the top down.",
    )
    beam: int = Field(default=8, ge=1, le=100, description="With tree_traversal: summaries followed per level.")
    expand_to_leaves: bool = Field(
        default=True, description="Replace each summary by its chunks; false: list summaries separately."
    )

    @property
    def unset_fields(self) -> set[str]:
        """See `SearchRequest`. Whole files are an option here."""
        return super().unset_fields | (set() if self.include_unembedded else {"whole"})


class Piece(BaseModel):
    """A chunk next to a hit, or one that a hit is merged from."""

    chunk_id: fields.ChunkId
    chunk_text: fields.ChunkText
    chunk_index: fields.ChunkIndex
    start_line: fields.StartLine
    end_line: fields.EndLine
    start_char: fields.StartChar
    end_char: fields.EndChar


class ScoredPiece(Piece):
    """One of the chunks that a file's hit is merged from."""

    score: Score


class FileChunk(Piece):
    """A chunk with its location and its description."""

    file_id: fields.FileId
    file_node_id: fields.FileNodeId
    file_path: fields.FilePath
    file_id_path: fields.FileIdPath
    file_type: fields.FileType
    title: fields.Title
    json_pointer: fields.JsonPointer
    total_chunks: fields.TotalChunks
    language: fields.Language
    symbol: fields.SymbolName
    node_type: fields.NodeType
    scope: fields.ChunkScope
    page: fields.PageNumber = None
    stale: fields.IsStale


class ListedChunk(Piece):
    """One chunk of a file, as a list shows it."""

    tokens: int = Field(description="Tokens of the chunk, estimated with the model's tokenizer.", examples=[24])
    context: str = Field(
        description="Headings, keys or definitions around the text, embedded in front of it; empty: none.",
        examples=["config"],
    )
    content_hash: ContentHash
    title: fields.Title
    json_pointer: fields.JsonPointer
    language: fields.Language
    symbol: fields.SymbolName
    node_type: fields.NodeType
    scope: fields.ChunkScope
    level: Level
    page: fields.PageNumber
    embedded: IsEmbedded


class Picture(BaseModel):
    """A page of a document, and where a chunk stands on it."""

    page: int = Field(description="The page, counted from 1.", examples=[2])
    png: str = Field(description="The page as PNG in base64.", examples=["iVBORw0KGgo="])
    width: int = Field(description="Pixels.", examples=[799])
    height: int = Field(description="Pixels.", examples=[1130])
    boxes: list[list[float]] = Field(
        description="Left, top, width and height of the lines of the chunk, in shares of the page.",
        examples=[[[0.12, 0.1, 0.46, 0.014]]],
    )


class Around(BaseModel):
    """A chunk with the chunks before and after it, in the file's order."""

    chunk: FileChunk = Field(description="The requested chunk.")
    before: list[Piece] = Field(description="Chunks directly before it, in the file's order.", examples=[[]])
    after: list[Piece] = Field(description="Chunks directly after it, in the file's order.", examples=[[]])
    picture: Picture | None = Field(
        default=None,
        description="The first page of the chunk, if `picture` was requested. Null for files other than PDF, and for "
        "one that changed since it was indexed or cannot be drawn.",
        examples=[None],
    )


def _all_optional(schema: dict[str, Any]) -> None:
    """Describe a hit as it is sent: `fields` may leave out each of its fields."""
    schema.pop("required", None)


class Hit(BaseModel):
    """One chunk of an answer.

    `whole` marks a file that is not embedded, returned because of `include_unembedded`. Its `chunk_text` is the whole
    file and its `chunk_id` that of the first chunk. Its score is a keyword score, 0 if the file contains none of the
    query's words. With `group_by_file` a hit is a file: `chunk_id` and the fields that describe it belong to the best
    chunk. `chunk_text` then joins all chunks found in the file, in the file's order, with a line `…` where text is
    left out, and `pieces` are these chunks. In a text of more than 50,000 characters, bytes such as a picture's are a
    placeholder, `[base64, 400 kB, image/png]`; `GET …/chunks/{chunk_id}` has all of it.
    """

    model_config = ConfigDict(json_schema_extra=_all_optional)

    chunk_id: fields.ChunkId
    chunk_text: fields.ChunkText
    score: Score
    distance: float | None = Field(
        description="Cosine distance to the query, 0 to 2; null if the vector search did not find it.", examples=[0.19]
    )
    file_node_id: fields.FileNodeId
    file_id: fields.FileId
    file_id_path: fields.FileIdPath
    file_path: fields.FilePath
    file_name: fields.FileName
    file_type: fields.FileType
    title: fields.Title
    url: str | None = Field(
        default=None,
        description="Address on the web: the node's `url`, or made by the tool's `url_template`; null without either.",
    )
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Metadata of the file, with that of its folders. Only a hit that has some has this field.",
        examples=[{"team": "red", "year": 2024}],
    )
    json_pointer: fields.JsonPointer
    chunk_index: fields.ChunkIndex
    total_chunks: fields.TotalChunks
    content_hash: ContentHash
    start_line: fields.StartLine
    end_line: fields.EndLine
    start_char: fields.StartChar
    end_char: fields.EndChar
    language: fields.Language
    symbol: fields.SymbolName
    node_type: fields.NodeType
    scope: fields.ChunkScope
    level: Level
    page: fields.PageNumber = None
    embedded: IsEmbedded
    whole: bool = Field(default=False, description="Whether `chunk_text` is a whole file that is not embedded.")
    stale: fields.IsStale
    also_in: list[str] = Field(
        default_factory=list,
        description="Paths of other files that have nearly the same text, among the best hits; needs `boost`.",
        examples=[["v1/guide.md"]],
    )
    matched_queries: list[str] = Field(
        default_factory=list, description="The queries that found this hit.", examples=[["authentication JWT token"]]
    )
    pieces: list[ScoredPiece] | None = Field(
        default=None, description="With `group_by_file`: the chunks that the hit is merged from; null otherwise."
    )
    before: list[Piece] | None = Field(
        default=None, description="Chunks directly before the hit; null unless `before` was requested."
    )
    after: list[Piece] | None = Field(
        default=None, description="Chunks directly after the hit; null unless `after` was requested."
    )
    explain: dict[str, float] | None = Field(
        default=None, description="Components of the score, by name; null unless `explain` was requested."
    )


class Coverage(BaseModel):
    """The share of the folder that was searched. Lost vectors do not matter to a keyword search in Postgres."""

    indexed_files: int | None = Field(
        description="Number of files that were searched; null if the caller may not read all files.", examples=[612]
    )
    total_files: int | None = Field(
        description="Number of files in the folder; null if the caller may not read all of them.", examples=[900]
    )
    stale_files: int | None = Field(
        default=None, description="Files added, changed or removed since they were indexed; null without `refresh`."
    )
    vector_share: float | None = Field(
        default=None,
        description="Share of the chunks that are found by meaning, from 0 to 1; words find all. Null for a grep.",
        examples=[1.0],
    )


class Note(BaseModel):
    """Something the caller should know about an answer, such as a part that failed."""

    code: str = Field(description="Stable code of the note.", examples=["still_indexing"])
    detail: str = Field(
        description="A sentence that explains it.",
        examples=["SEARCH_SECONDS elapsed before all changes were indexed."],
    )


class Step(BaseModel):
    """One step of a search, as shown by `trace`."""

    step: str = Field(description="Name of the step.", examples=["embed"])
    took_ms: fields.TookMs
    found: int | None = Field(default=None, description="Number of results of the step; null if it counts none.")
    detail: str | None = Field(default=None, description="What the step did; null if its name says all.")


class Answer(BaseModel):
    """The hits of a query, best first."""

    query: Asked
    mode: Mode = Field(description="How the folder was searched.")
    total_results: int = Field(description="Number of hits in `results`.", examples=[1])
    took_ms: fields.TookMs
    coverage: Coverage = Field(description="How much of the folder was searched.")
    notes: list[Note] = Field(
        default_factory=list, description="What the caller should know, such as a part that failed.", examples=[[]]
    )
    calibrated: bool = Field(
        default=False,
        description="Whether the first `score` is the chance that one of the first five hits answers the query. It was "
        "fitted for the embedded model, and needs `rerank: boost`.",
        examples=[True],
    )
    trace: list[Step] | None = Field(
        default=None, description="Steps of the search in their order; null unless `trace` was requested."
    )
    results: list[Hit] = Field(description="The hits, best first.")
