"""Pattern search in the text of files, line by line."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from schemas import fields
from schemas.queries.metadata import FILTER_DESCRIPTION, FILTER_EXAMPLE, MetadataFilter
from schemas.queries.search import Coverage, Names, Note
from schemas.queries.times import Times

#: Maximum bytes of a multi-line match. Longer matches may be missed.
MAX_SPAN = 32 << 10


#: Maximum hits of an answer.
MAX_LINES = 10_000
#: Maximum globs of a request. Each is matched against every path.
MAX_GLOBS = 20
#: Maximum lines before a hit, after it, and of its match.
MAX_CONTEXT = 50
#: Maximum spans of a hit. An answer may have thousands of hits.
MAX_SPANS = 100

Glob = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Globs = Annotated[list[Glob], Field(min_length=1, max_length=MAX_GLOBS)]


class Grep(Times):
    """A pattern search. The options are named as in ripgrep."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"pattern": "connection refused"},
                {"pattern": r"def \w+_token\(", "regex": True, "glob": "*.py", "before": 1, "after": 2},
                {"pattern": r"def get\(\s*self", "regex": True, "multiline": True, "types": ["python"]},
                {"pattern": "TODO", "modified_after": "2026-11-01T00:00:00Z"},
                {"pattern": "id", "word": True, "case_sensitive": True, "types": ["ts", "sql"]},
            ]
        },
    )

    pattern: str = Field(min_length=1, max_length=10_000, description="What to search for.")
    regex: bool = Field(default=False, description="The pattern is a regular expression (RE2), not plain text.")
    case_sensitive: bool = Field(default=False, description="Distinguish upper and lower case.")
    word: bool = Field(
        default=False, description="Match whole words only: no letter, digit or underscore is next to a match."
    )
    multiline: bool = Field(
        default=False,
        description=f"A match may span several lines, up to {MAX_SPAN >> 10} KiB. The hit is the line where it begins.",
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="A file, or a folder to search below; null: the whole folder.",
    )
    glob: Glob | Globs | None = Field(
        default=None,
        description="A path, or a pattern as in .gitignore. With `!`: all other files. Null: every file. A list "
        "selects what any without `!` selects, and none with `!` excludes.",
    )
    types: Names | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="File types as for ripgrep's -t, such as python or md; null: every type.",
    )
    metadata: MetadataFilter = Field(default=None, description=FILTER_DESCRIPTION, examples=[FILTER_EXAMPLE])
    before: int = Field(default=0, ge=0, le=MAX_CONTEXT, description="Lines of context before each hit.")
    after: int = Field(default=0, ge=0, le=MAX_CONTEXT, description="Lines of context after each hit.")
    max_per_file: int | None = Field(
        default=None, ge=1, le=10_000, description="Maximum number of hits per file; null: no limit."
    )
    head_limit: int = Field(default=100, ge=1, le=MAX_LINES, description="Maximum number of hits in total.")
    spans: bool = Field(default=False, description="Tell where in each preview the matches are.")


class Span(BaseModel):
    """A part of a line, in characters."""

    start: int = Field(description="Where it starts, counted from 0.", examples=[5])
    end: int = Field(description="Where it ends.", examples=[9])


class GrepHit(BaseModel):
    """One line with a match. Lines and columns count from 1, columns in characters."""

    file_id_path: fields.FileIdPath
    file_path: fields.FilePath
    line: int = Field(description="Line of the match, counted from 1.", examples=[4])
    column: int = Field(description="Column of the match in characters, counted from 1.", examples=[6])
    preview: str = Field(description="The line. A long line is cut around the match.", examples=['    "type": "JWT",'])
    before: list[str] = Field(description="Lines before the hit, as many as requested.", examples=[[]])
    after: list[str] = Field(description="Lines after the hit, as many as requested.", examples=[[]])
    end_line: int | None = Field(default=None, description="The line where the match ends, if it is not `line`.")
    rest: list[str] | None = Field(
        default=None,
        description=f"With `end_line`, the lines of the match after the first, at most {MAX_CONTEXT}.",
        examples=[[]],
    )
    spans: list[Span] | None = Field(
        default=None,
        description=f"With `spans`, the matches in the preview, at most {MAX_SPANS}. Empty if the line matches only as "
        "it is read.",
    )


class GrepAnswer(BaseModel):
    """Hits by path and line."""

    hits: list[GrepHit] = Field(description="The hits, by path and line.")
    truncated: bool = Field(description="Whether there may be more, because a limit or the time was reached.")
    coverage: Coverage = Field(description="How much of the folder was searched.")
    notes: list[Note] = Field(
        default_factory=list,
        description="What the caller should know, such as files that were left out.",
        examples=[[]],
    )
