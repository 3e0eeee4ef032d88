"""Models that an installation offers, as the API returns them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from schemas import fields

Kind = Literal["embedding", "chat", "rerank"]


class ModelCheck(BaseModel):
    """Whether a model answered one tiny request, at most a minute ago."""

    ok: bool = Field(description="Whether it answered.", examples=[True])
    took_ms: fields.TookMs
    code: str | None = Field(default=None, description="Stable code of the error; null if it answered.")
    detail: str | None = Field(
        default=None, description="One sentence that names the cause and the remedy; null if it answered."
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
    check: ModelCheck | None = Field(
        default=None, description="Whether it answers now; null without `check`, and beyond the limit of checks."
    )


class Models(BaseModel):
    """All models that an installation offers."""

    items: list[ModelInfo] = Field(description="The models, by provider, then kind; defaults first.")
