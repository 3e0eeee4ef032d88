"""Summary trees."""

from __future__ import annotations

from datetime import datetime

from foldex_client.models.base import Model


class TreeLevel(Model):
    """One level of a tree of summaries."""

    level: int
    count: int


class RaptorStatus(Model):
    """The tree of summaries that answers, and its newest build."""

    has_index: bool
    total_nodes: int
    leaf_nodes: int
    summary_nodes: int
    max_level: int
    levels: list[int]
    nodes_by_level: list[TreeLevel]
    last_build_time: datetime | None
    indexing_status: str
    progress: float
    stale: int
    skipped: dict[str, int]
    tokens_in: int
    tokens_out: int
    requests: int
    method: str | None
    model: str | None
    warning: str | None
    error: str | None
    error_code: str | None


class RaptorEstimate(Model):
    """What a build of a tree of summaries would cost. `usd` is None if the price is not known."""

    leaves: int
    summaries: int
    requests: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    model: str
    method: str
    fits: bool


class TreeNode(Model):
    """A summary, or at level 0 a chunk."""

    node_id: str
    level: int
    text: str
    children_ids: list[str]
    parent_ids: list[str]
    file_paths: list[str]
