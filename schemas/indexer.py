"""The indexers of an installation, as the API returns them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

IndexerStatus = Literal["available", "missing_dependency", "not_configured"]


class IndexerInfo(BaseModel):
    """A kind of index that a tool can have."""

    name: str = Field(description="Name of the indexer.", examples=["raptor"])
    description: str = Field(
        description="What it makes, and what it needs.",
        examples=["A tree of summaries over the chunks, for questions about a whole folder."],
    )
    status: IndexerStatus = Field(
        description="not_configured: a setting that it needs is not set; missing_dependency: the API's environment "
        "lacks libraries that it may need."
    )
    config_schema: dict[str, Any] = Field(
        description="JSON schema of its config: of a tool's `config` for `chunks`, else of the field of that config "
        "with the indexer's name.",
        examples=[{"type": "object", "properties": {"enabled": {"type": "boolean", "default": False}}}],
    )
