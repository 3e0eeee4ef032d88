"""Answers of searches over a tree of summaries. Answers without one do not have these fields."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field

from schemas.queries.search import Answer, Hit

#: An id in examples.
NODE = "3f2b8c1e-9d47-4a60-8e15-6c7d2b9a4f30"
#: Characters of a summary that a hit shows.
PREVIEW_CHARACTERS = 100


class TreeHit(Hit):
    """A chunk, and the summary that led to it."""

    raptor_expanded_from: UUID | None = Field(
        default=None,
        description="The summary that this chunk replaces; null if the chunk was found by itself.",
        examples=[NODE],
    )
    raptor_summary_preview: str | None = Field(
        default=None, description="The first 100 characters of that summary; null without one."
    )


class SummaryHit(BaseModel):
    """A summary that a query found."""

    node_id: UUID = Field(description="Id of the summary.", examples=[NODE])
    level: int = Field(description="Level in the tree; 1 summarises chunks.", examples=[1])
    text: str = Field(description="The summary.", examples=["Tokens are signed by the gateway and last an hour."])
    score: float = Field(description="Cosine similarity to the query, from 0 to 1.", examples=[0.62])
    file_paths: list[str] = Field(description="Files below this summary, at most 100.", examples=[["auth/jwt.md"]])


class TreeAnswer(Answer):
    """The hits of a query. The fields of summary trees are present only if the query sets `tree`."""

    results: list[TreeHit] = Field(description="The hits, best first.")  # type: ignore[assignment] # a list is invariant, and nobody changes this one
    summaries: list[SummaryHit] = Field(
        default_factory=list, description="Summaries that the query found, with expand_to_leaves: false."
    )
