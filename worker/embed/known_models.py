"""Facts about models from the table that LiteLLM bundles. It needs no network.

The file is read without LiteLLM, whose import takes seconds and 140 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

#: Providers whose name in the table differs from that in names of models: `vertex_ai-embedding-models`.
_SUFFIX = "-embedding-models"
_MILLION = 1_000_000
#: A row of the table, in JSON: numbers and texts by column.
Entry = dict[str, Any]
_FILE = "model_prices_and_context_window_backup.json"
_COLUMNS = (
    "mode",
    "litellm_provider",
    "output_vector_size",
    "max_input_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "input_cost_per_query",
)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Facts of a model; None if unknown. Prices are US dollars: per million tokens, and per query of a rerank model."""

    dimensions: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    query_price: float | None = None


def lookup_model(model: str) -> KnownModel:
    """Return the facts of a model, by its name with or without its provider."""
    entry = _entry(model)
    return KnownModel(
        dimensions=entry.get("output_vector_size"),
        max_input_tokens=entry.get("max_input_tokens"),
        max_output_tokens=entry.get("max_output_tokens"),
        input_price=_per_million(entry.get("input_cost_per_token")),
        output_price=_per_million(entry.get("output_cost_per_token")),
        query_price=entry.get("input_cost_per_query") or None,
    )


def known_input_tokens(model: str) -> int | None:
    """Return the maximum tokens of one text, also from the row of another provider's model of that name."""
    return (_table().get(model) or _table().get(model.partition("/")[2]) or {}).get("max_input_tokens")


def embedding_models() -> Iterator[str]:
    """Return the names of all embedding models, each with its provider."""
    for name, entry in _table().items():
        if entry.get("mode") == "embedding":
            provider = _provider(entry)
            yield name if name.startswith(f"{provider}/") else f"{provider}/{name}"


def provider_of(model: str) -> str | None:
    """Return the provider in a model's name, or the table's provider for a name without one."""
    provider, slash, _ = model.partition("/")
    return provider if slash else _provider(_entry(model)) or None


@cache
def _table() -> dict[str, Entry]:
    """Return the table's rows by name and alias, with only the columns that this module reads."""
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("litellm is not installed; its table of models is needed")
    rows = orjson.loads(Path(spec.submodule_search_locations[0], _FILE).read_bytes())
    table = {name: {column: row[column] for column in _COLUMNS if column in row} for name, row in rows.items()}
    for name, row in rows.items():
        for alias in row.get("aliases") or ():
            table.setdefault(alias, table[name])
    return table


def _entry(model: str) -> Entry:
    """Return the table's row. Many names lack their provider, and two providers may use one name differently."""
    provider, _, name = model.partition("/")
    bare = _table().get(name, {})
    return _table().get(model) or (bare if _provider(bare) == provider else {})


def _provider(entry: Entry) -> str:
    return str(entry.get("litellm_provider", "")).removesuffix(_SUFFIX)


def _per_million(price: float | None) -> float | None:
    """Return the price of a million tokens. The table writes 0 for many unknown prices."""
    return round(price * _MILLION, 6) if price else None
