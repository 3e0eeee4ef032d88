"""The estimated cost of indexing a folder."""

from __future__ import annotations

from pydantic import BaseModel, Field

from schemas.content.source import Granularity


class Range(BaseModel):
    """An estimated number. The true one lies between `low` and `high` in 19 of 20 folders."""

    expected: float = Field(description="The estimate itself.", examples=[1_805_000])
    low: float = Field(description="Lower end.", examples=[1_640_000])
    high: float = Field(description="Upper end.", examples=[1_970_000])


class CutEstimate(BaseModel):
    """The cost and the stored bytes of a run with one granularity."""

    chunks: Range = Field(description="Chunks, each with one vector.")
    vector_bytes: Range = Field(description="Bytes of the vectors alone, of 4 bytes a dimension.")
    tokens: Range = Field(description="Tokens that the run would pay for, if no text is cached.")
    requests: Range = Field(description="Requests to the provider.")
    cost: Range | None = Field(description="US dollars; null if the price is not known.")


class Estimate(BaseModel):
    """Files that a run would read or skip, and its cost. Nothing of it is stored."""

    complete: bool = Field(description="Whether all of the folder was listed in time.", examples=[True])
    total_files: int = Field(description="Files that would be listed as the tool's.", examples=[900])
    total_bytes: int = Field(description="Their bytes.", examples=[9_120_000])
    unchanged_files: int = Field(
        description="Those that the same index holds already, unchanged: they cost nothing.", examples=[0]
    )
    skipped: dict[str, int] = Field(
        description="Those that would not be read, by reason.", examples=[{"unsupported_type": 8, "too_large": 1}]
    )
    ignored: dict[str, int] = Field(
        description="Files that rules exclude, by rule, as `ignored` of a status.", examples=[{"vcs_directories": 1}]
    )
    uncounted_files: int = Field(
        description="Those whose text only a worker can extract, such as PDF: they are missing from `tokens`.",
        examples=[12],
    )
    uncounted_bytes: int = Field(description="Their bytes.", examples=[4_400_000])
    sampled_files: int = Field(description="Files that were read to count tokens.", examples=[200])
    skipped_in_sample: dict[str, int] = Field(
        description="Files of the sample whose content would not be indexed, by reason.", examples=[{"minified": 1}]
    )
    tokens: Range = Field(description="Tokens that the run would pay for, if no text is cached.")
    requests: Range = Field(description="Requests to the provider.")
    model: str = Field(description="Embedding model.", examples=["openai/text-embedding-3-small"])
    price: float | None = Field(
        description="US dollars per million tokens; null if it is not known offline, 0 for a local model.",
        examples=[0.02],
    )
    cost: Range | None = Field(description="US dollars; null if the price is not known.")
    by_granularity: dict[Granularity, CutEstimate] = Field(
        description="Chunks, vectors and cost with each granularity; `tokens`, `requests` and `cost` are the config's."
    )
    notes: list[str] = Field(
        description="What the numbers do not include, and whether the folder is too large for its store.",
        examples=[["Texts with cached vectors are not subtracted."]],
    )
