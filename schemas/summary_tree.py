"""Summary trees as the API accepts and returns them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from schemas.fields import Covering

ClusterMethod = Literal["gmm", "kmeans", "adjacent"]
TreeStatus = Literal["none", "pending", "indexing", "indexed", "error", "cancelled"]


class RaptorConfig(BaseModel):
    """Settings for a tree of summaries over a tool's folder."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=False, description="Build a tree of summaries and keep it up to date.")
    max_layers: int = Field(default=3, ge=1, le=5, description="Maximum layers of summaries.")
    cluster_method: ClusterMethod = Field(
        default="gmm",
        description="`gmm`: Gaussian mixtures, where a text may have several parents. `kmeans`: each text has one. "
        "`adjacent`: neighbours in the folder, for folders that are large or change often.",
    )
    min_cluster_size: int = Field(
        default=3, ge=2, le=100, description="A layer with fewer texts is not summarised further."
    )
    summary_prompt: str | None = Field(
        default=None, min_length=1, max_length=10_000, description="Prompt with `{text}`; null: the built-in prompt."
    )
    summary_num_workers: int = Field(default=4, ge=1, le=32, description="Requests in flight.")
    llm_model: str | None = Field(
        default=None, min_length=1, max_length=200, description="Language model; null: DEFAULT_LLM_MODEL."
    )
    max_leaves: int = Field(
        default=20_000, ge=1, le=1_000_000, description="Maximum texts that gmm and kmeans cluster."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Maximum tokens that one build may send and receive; null: no maximum."
    )

    @field_validator("summary_prompt")
    @classmethod
    def _holds_text(cls, value: str | None) -> str | None:
        if value is not None and "{text}" not in value:
            raise ValueError("summary_prompt must hold {text}, where the texts are inserted")
        return value


class TreeLevel(BaseModel):
    """One level of a tree; 0 are the texts of the folder."""

    level: int = Field(description="Number of the level.", examples=[1])
    count: int = Field(description="Texts or summaries of the level.", examples=[6])


class RaptorStatus(BaseModel):
    """The tree that answers, and its newest build.

    Fields that describe all files are null for a caller who may not read all of them.
    """

    has_index: bool = Field(description="Whether a complete tree answers queries.", examples=[True])
    total_nodes: Covering[int] = Field(description="Leaves and summaries.", examples=[31])
    leaf_nodes: Covering[int] = Field(description="Distinct texts of the folder in the tree.", examples=[24])
    summary_nodes: Covering[int] = Field(description="Summaries of all levels.", examples=[7])
    max_level: Covering[int] = Field(description="The highest level.", examples=[2])
    levels: Covering[list[int]] = Field(description="The levels that have nodes.", examples=[[0, 1, 2]])
    nodes_by_level: Covering[list[TreeLevel]] = Field(
        description="The number of nodes of each level.", examples=[[{"level": 0, "count": 24}]]
    )
    last_build_time: datetime | None = Field(
        description="When the tree that answers was completed; null: there is none.", examples=["2026-11-20T09:30:00Z"]
    )
    indexing_status: TreeStatus = Field(
        description="State of the newest build; none: there was none.", examples=["indexed"]
    )
    progress: Covering[float] = Field(
        description="Share of the expected summaries that is done, from 0 to 1.", examples=[1.0]
    )
    stale: Covering[int] = Field(
        description="Texts that were added or removed since the tree that answers was built.", examples=[0]
    )
    skipped: Covering[dict[str, int]] = Field(
        description="Clusters without a summary, by reason.", examples=[{"refused": 1}]
    )
    tokens_in: Covering[int] = Field(
        description="Tokens that the newest build sent to the language model.", examples=[0]
    )
    tokens_out: Covering[int] = Field(description="Tokens that the newest build received from it.", examples=[0])
    requests: Covering[int] = Field(description="Requests that the newest build sent to it.", examples=[0])
    method: ClusterMethod | None = Field(
        description="How the tree is clustered; null: summary trees are off.", examples=["adjacent"]
    )
    model: str | None = Field(
        description="The language model that summarises; null: summary trees are off.", examples=["local/extractive"]
    )
    warning: Covering[str] = Field(description="What the build waits for; null: nothing.", examples=[None])
    error: Covering[str] = Field(description="Why the newest build failed; null: it did not.", examples=[None])
    error_code: Covering[str] = Field(description="Stable code of that error; null without one.", examples=[None])


class RaptorEstimate(BaseModel):
    """The cost of building the whole tree, without cached parts.

    Fields that describe all files are null for a caller who may not read all of them.
    """

    leaves: Covering[int] = Field(description="Distinct texts of the folder.", examples=[1200])
    summaries: Covering[int] = Field(description="Expected summaries.", examples=[298])
    requests: Covering[int] = Field(
        description="Expected requests to the language model; 0 for local/extractive.", examples=[298]
    )
    tokens_in: Covering[int] = Field(description="Expected tokens that are sent.", examples=[640_000])
    tokens_out: Covering[int] = Field(description="Expected tokens that are received.", examples=[59_600])
    usd: Covering[float] = Field(
        description="Expected US dollars; null if the price is not known offline.", examples=[0.2]
    )
    model: str = Field(description="The language model.", examples=["openai/gpt-4o-mini"])
    method: ClusterMethod = Field(description="The cluster method.", examples=["adjacent"])
    fits: Covering[bool] = Field(description="Whether max_leaves and max_tokens allow the build.", examples=[True])


class BuildRequest(BaseModel):
    """Options for building a tree."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}, {"full": True}]})

    full: bool = Field(
        default=False, description="Cluster every layer from scratch; summaries of equal clusters are reused."
    )


class TreeNode(BaseModel):
    """A summary, or at level 0 a chunk that stands for all chunks with its text."""

    node_id: UUID = Field(description="Id of the summary or chunk.", examples=["3f2b8c1e-9d47-4a60-8e15-6c7d2b9a4f30"])
    level: int = Field(description="Level in the tree; 0 are chunks.", examples=[1])
    text: str = Field(description="The summary, or the text of the chunk.", examples=["Tokens last an hour."])
    children_ids: list[UUID] = Field(
        description="Nodes that this one summarises, in the order of the text.", examples=[[]]
    )
    parent_ids: list[UUID] = Field(description="Summaries of this node.", examples=[[]])
    file_paths: list[str] = Field(description="Files below this node, at most 100.", examples=[["auth/jwt.md"]])
