"""What the table that LiteLLM bundles knows of models. It needs no network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worker.embed.litellm import warm

#: Providers that the table names otherwise than the names of models do: `vertex_ai-embedding-models`.
_SUFFIX = "-embedding-models"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Facts of a model; None if unknown. Prices are US dollars: per million tokens, and per query of a rerank model."""

    dimensions: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    query_price: float | None = None


def known(model: str) -> KnownModel:
    """The facts of a model, by its name with or without its provider."""
    entry = _entry(model)
    return KnownModel(
        dimensions=entry.get("output_vector_size"),
        max_input_tokens=entry.get("max_input_tokens"),
        max_output_tokens=entry.get("max_output_tokens"),
        input_price=_per_million(entry.get("input_cost_per_token")),
        output_price=_per_million(entry.get("output_cost_per_token")),
        query_price=entry.get("input_cost_per_query") or None,
    )


def embedding_models() -> Iterator[str]:
    """The names of all embedding models, each with its provider."""
    for name, entry in _table().items():
        if entry.get("mode") == "embedding":
            provider = _provider(entry)
            yield name if name.startswith(f"{provider}/") else f"{provider}/{name}"


def provider_of(model: str) -> str | None:
    """The provider in a model's name, or that of the table for a name without one."""
    provider, slash, _ = model.partition("/")
    return provider if slash else _provider(_entry(model)) or None


def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = warm().model_cost
    return table


def _entry(model: str) -> dict[str, Any]:
    """The table's row. It names many models without their provider, and different ones of two providers alike."""
    provider, _, name = model.partition("/")
    bare = _table().get(name, {})
    return _table().get(model) or (bare if _provider(bare) == provider else {})


def _provider(entry: dict[str, Any]) -> str:
    return str(entry.get("litellm_provider", "")).removesuffix(_SUFFIX)


def _per_million(price: float | None) -> float | None:
    """The price of a million tokens. The table writes 0 for many prices that it does not know."""
    return round(price * _MILLION, 6) if price else None
