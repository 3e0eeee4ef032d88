"""The estimated cost of a tool."""

from __future__ import annotations

from foldex_client.models import Model


class Range(Model):
    """An estimated number. The true one lies between `low` and `high` in 19 of 20 folders."""

    expected: float
    low: float
    high: float


class CutEstimate(Model):
    """The cost and the stored bytes of a run with one granularity. `vector_bytes` are of the vectors alone."""

    chunks: Range
    vector_bytes: Range
    tokens: Range
    requests: Range
    cost: Range | None


class Estimate(Model):
    """Files that a run would read or skip, and its cost. `cost` is in US dollars, `price` for a million tokens."""

    complete: bool
    total_files: int
    total_bytes: int
    unchanged_files: int
    skipped: dict[str, int]
    ignored: dict[str, int]
    uncounted_files: int
    uncounted_bytes: int
    sampled_files: int
    skipped_in_sample: dict[str, int]
    tokens: Range
    requests: Range
    model: str
    price: float | None
    cost: Range | None
    by_granularity: dict[str, CutEstimate]
    notes: list[str]
