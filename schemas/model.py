"""Models that an installation offers, as the API returns them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from schemas import fields

Kind = Literal["embedding", "chat", "rerank"]


class ModelCheck(BaseModel):
    """Whether a model answered one tiny request, seconds ago."""

    ok: bool = Field(description="Whether it answered.", examples=[True])
    took_ms: fields.TookMs
    checked_at: datetime = Field(description="When the check ended.", examples=["2026-11-30T12:00:00Z"])
    code: str | None = Field(default=None, description="Stable code of the error; null if it answered.")
    detail: str | None = Field(
        default=None, description="One sentence that names the cause and the remedy; null if it answered."
    )


class ModelBudget(BaseModel):
    """The budget of all workers together for a model, and whether its provider is blocked.

    The limits refill within seconds: a minute's limit is split into windows of 10 s, or is one window of 60 s if it is
    below 60 requests. While Redis does not answer, all but the limits is null.
    """

    requests_per_minute: int | None = Field(
        description="`EMBEDDING_RPM` or `LLM_RPM`; null if unlimited.", examples=[3000]
    )
    tokens_per_minute: int | None = Field(
        description="`EMBEDDING_TPM` or `LLM_TPM`; null if unlimited.", examples=[1_000_000]
    )
    window_seconds: int = Field(description="Seconds over which requests and tokens are counted.", examples=[10])
    requests_left: int | None = Field(
        description="Requests that may be sent now, of this window's part of the limit; null if unlimited or unknown.",
        examples=[412],
    )
    tokens_left: int | None = Field(
        description="Tokens that may be sent now, of this window's part of the limit; null if unlimited or unknown.",
        examples=[120_500],
    )
    blocked_until: datetime | None = Field(
        description="When workers ask again, after the provider failed or asked them to wait; null unless blocked.",
        examples=[None],
    )
    reason: str | None = Field(description="Why it is blocked, in words; null unless blocked.", examples=[None])
    failures: int | None = Field(
        description="Requests that failed in a row, over all workers; null if unknown.", examples=[0]
    )
    active_projects: int | None = Field(
        description="Projects that asked for the budget within the last 5 s, and share it; null if unknown.",
        examples=[1],
    )


class ModelInfo(BaseModel):
    """A model that is configured or allowed. Prices are those of the providers, as LiteLLM's bundled table has them."""

    model: str = Field(
        description="Name as `config.embedding_model` and the settings take it.",
        examples=["openai/text-embedding-3-small"],
    )
    provider: str | None = Field(description="Provider of the model; null if unknown.", examples=["openai"])
    kind: Kind = Field(description="embedding: for tools; chat: for `rerank: llm`; rerank: for `rerank: model`.")
    default: bool = Field(description="Whether it is used when nothing else is named.", examples=[True])
    dimensions: int | None = Field(
        description="Dimensions of its vectors; null if unknown, and for other kinds.", examples=[1536]
    )
    max_input_tokens: int | None = Field(
        description="Maximum tokens of one text, or of a prompt; null if unknown.", examples=[8191]
    )
    max_inputs: int | None = Field(
        description="Maximum texts that Foldex sends in one request; null for other kinds than embedding.",
        examples=[2048],
    )
    max_request_tokens: int | None = Field(
        description="Maximum tokens that Foldex sends in one request; null for other kinds than embedding.",
        examples=[300_000],
    )
    max_output_tokens: int | None = Field(
        description="Maximum tokens of an answer; null if unknown, and for other kinds than chat.", examples=[None]
    )
    input_price: float | None = Field(
        description="US dollars per million tokens sent; 0 for local models; null if unknown, and for an address of "
        "your own.",
        examples=[0.02],
    )
    output_price: float | None = Field(
        description="US dollars per million tokens of answers; null if unknown, and for other kinds than chat.",
        examples=[None],
    )
    query_price: float | None = Field(
        description="US dollars per reranked query; null if unknown, or if tokens are paid.", examples=[None]
    )
    budget: ModelBudget | None = Field(
        default=None,
        description="What workers may spend on it; null for local and rerank models, which have no limits.",
    )
    check: ModelCheck | None = Field(
        default=None, description="Whether it answers now; null without `check`, and beyond the limit of checks."
    )


class Models(BaseModel):
    """All models that an installation offers."""

    items: list[ModelInfo] = Field(description="The models, by provider, then kind; defaults first.")
