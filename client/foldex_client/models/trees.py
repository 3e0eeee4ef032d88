"""Summary trees."""

from __future__ import annotations

from datetime import datetime

from foldex_client.models.base import Model


class TreeLevel(Model):
    """One level of a tree of summaries."""

    level: int
    count: int


class RaptorStatus(Model):
    """The tree of summaries that answers, and its newest build.

    Fields that describe all files are None for a caller who may not read all of them.
    """

    has_index: bool
    total_nodes: int | None
    leaf_nodes: int | None
    summary_nodes: int | None
    max_level: int | None
    levels: list[int] | None
    nodes_by_level: list[TreeLevel] | None
    last_build_time: datetime | None
    indexing_status: str
    progress: float | None
    stale: int | None
    skipped: dict[str, int] | None
    tokens_in: int | None
    tokens_out: int | None
    requests: int | None
    method: str | None
    model: str | None
    warning: str | None
    error: str | None
    error_code: str | None


class RaptorEstimate(Model):
    """The cost of building a tree of summaries. `usd` is None if the price is not known.

    Fields that describe all files are None for a caller who may not read all of them.
    """

    leaves: int | None
    summaries: int | None
    requests: int | None
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    model: str
    method: str
    fits: bool | None


class TreeNode(Model):
    """A summary, or at level 0 a chunk."""

    node_id: str
    level: int
    text: str
    children_ids: list[str]
    parent_ids: list[str]
    file_paths: list[str]
