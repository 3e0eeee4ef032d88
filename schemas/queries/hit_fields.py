"""The names of a hit's fields, from which a request chooses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType  # `typing` has it from Python 3.12 on

#: The fields of a hit, which `fields` chooses from.
HitFieldName = Literal[
    "chunk_id",
    "chunk_text",
    "score",
    "distance",
    "file_node_id",
    "file_id",
    "file_id_path",
    "file_path",
    "file_name",
    "file_type",
    "title",
    "url",
    "metadata",
    "json_pointer",
    "chunk_index",
    "total_chunks",
    "content_hash",
    "start_line",
    "end_line",
    "start_char",
    "end_char",
    "language",
    "symbol",
    "node_type",
    "scope",
    "level",
    "page",
    "embedded",
    "whole",
    "stale",
    "also_in",
    "matched_queries",
    "pieces",
    "before",
    "after",
    "explain",
]
#: The same as an object of its own, so that OpenAPI lists the names once.
HitField = TypeAliasType("HitField", Annotated[HitFieldName, Field(description="Name of a field of a hit.")])

FIELDS_DESCRIPTION = (
    "Fields that each hit has. Default: all, without those of options that are not set. A field of such an option is "
    "null or empty."
)
