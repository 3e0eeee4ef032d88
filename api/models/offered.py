"""The models that are configured or allowed, with what is known of them without asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schemas.model import Kind, ModelInfo
from worker.embed import known_models, models
from worker.embed.known_models import KnownModel
from worker.embed.local.offered import MODELS
from worker.embed.models import ProviderAccess
from worker.ignore import name_matches

#: Characters that make an entry of ALLOWED_MODELS a pattern.
_WILDCARDS = frozenset("*?[")
#: What is known of a rerank model that runs here.
_FREE = KnownModel(query_price=0.0)


@dataclass(frozen=True, slots=True)
class OfferedOptions:
    """The settings that name models, by the names they have in `worker.settings`."""

    default_embedding_model: str
    allowed_models: list[str] | None
    embedding_dimensions: int | None
    embedding_batch_size: int | None
    rerank_model: str | None
    rerank_api_base: str | None
    default_llm_model: str | None
    llm_api_base: str | None


def named(options: OfferedOptions) -> list[tuple[Kind, str]]:
    """The embedding and chat models that settings name, one perhaps twice, without those that only a pattern allows."""
    literal = (each for each in options.allowed_models or () if not _WILDCARDS & set(each))
    names: list[tuple[Kind, str]] = [("embedding", each) for each in (options.default_embedding_model, *literal)]
    if options.default_llm_model:
        names.append(("chat", options.default_llm_model))
    return names


def offered(options: OfferedOptions, access_to: Callable[[str], ProviderAccess]) -> list[ModelInfo]:
    """All models, by provider, then kind; defaults come first.

    `access_to` gives the address and key of an embedding model.
    """
    listed = [_embedding(options, name, access_to) for name in _embedding_names(options)]
    # `local/extractive` only summarises, and cannot chat
    if options.default_llm_model and not models.is_local(options.default_llm_model):
        listed.append(_other("chat", options.default_llm_model, options.llm_api_base))
    if options.rerank_model:
        listed.append(_other("rerank", options.rerank_model, options.rerank_api_base))
    return sorted(listed, key=lambda each: (each.provider or "", each.kind, not each.default, each.model))


def _embedding_names(options: OfferedOptions) -> list[str]:
    """The default model, and what ALLOWED_MODELS allows: its names, and models known to match its patterns."""
    entries = ["local/*"] if options.allowed_models is None else options.allowed_models
    names = [options.default_embedding_model]
    for entry in entries:
        names += _matching(entry) if _WILDCARDS & set(entry) else [entry]
    return list(dict.fromkeys(names))


def _matching(pattern: str) -> Iterator[str]:
    yield from (name for name in MODELS if name_matches(pattern, name))
    if not pattern.startswith("local/"):  # the table of all others takes memory
        yield from (name for name in known_models.embedding_models() if name_matches(pattern, name))


def _embedding(options: OfferedOptions, name: str, access_to: Callable[[str], ProviderAccess]) -> ModelInfo:
    is_default = name == options.default_embedding_model
    limits = models.limits(name)
    info = ModelInfo(
        model=name,
        provider="local",
        kind="embedding",
        default=is_default,
        dimensions=MODELS[name].profile.dimensions if name in MODELS else None,
        max_input_tokens=limits.max_input_tokens,
        max_inputs=limits.max_inputs,
        max_request_tokens=limits.max_request_tokens,
        max_output_tokens=None,
        input_price=0.0,
        output_price=None,
        query_price=None,
    )
    if models.is_local(name):
        return info
    known = known_models.lookup_model(name)
    configured = {
        "provider": known_models.provider_of(name),
        "dimensions": (is_default and options.embedding_dimensions) or known.dimensions,
        "max_input_tokens": min(limits.max_input_tokens, known.max_input_tokens or limits.max_input_tokens),
        "max_inputs": options.embedding_batch_size or limits.max_inputs,
        "input_price": None if access_to(name).api_base else known.input_price,
    }
    return info.model_copy(update=configured)


def _other(kind: Kind, name: str, api_base: str | None) -> ModelInfo:
    known = _FREE if models.is_local(name) else known_models.lookup_model(name)
    priced = KnownModel() if api_base else known
    return ModelInfo(
        model=name,
        provider="local" if models.is_local(name) else known_models.provider_of(name),
        kind=kind,
        default=True,
        dimensions=None,
        max_input_tokens=known.max_input_tokens,
        max_inputs=None,
        max_request_tokens=None,
        max_output_tokens=known.max_output_tokens if kind == "chat" else None,
        input_price=priced.input_price,
        output_price=priced.output_price if kind == "chat" else None,
        query_price=priced.query_price,
    )
