"""Fields for derived indexes in a tool's config and in a query: one field and its values for each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from schemas.summary_tree import RaptorConfig

#: What a query's `tree` may be. Each value belongs to one indexer; `off` to the chunks.
TreeSearch = Literal["off", "collapsed", "tree_traversal"]


class DerivedConfigs(BaseModel):
    """The configs of derived indexes, by the names of their indexers. Each has the field `enabled`."""

    raptor: Annotated[RaptorConfig, BeforeValidator(lambda value: {} if value is None else value)] = Field(
        default_factory=RaptorConfig, description="The tree of summaries; null: none."
    )
