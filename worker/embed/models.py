"""Known limits of embedding models, and functions that turn a model's name into an embedder."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, EmbeddingUnavailable, ModelNotAllowed, ModelRefused
from worker.embed import Embedder, known_models, provider
from worker.embed.local import minilm
from worker.embed.local.offered import MODELS
from worker.ignore import name_matches
from worker.machine.sharing.slots import Slots
from worker.tokens.tokenizers import Tokenizer, cl100k


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """A model's limits: texts per request, tokens per request, tokens per text."""

    max_inputs: int
    max_request_tokens: int
    max_input_tokens: int


_OPENAI = ModelLimits(2048, 300_000, 8192)
#: Limits by the provider prefix of the model's name. A name without a prefix is OpenAI's.
_LIMITS = {
    "": _OPENAI,
    "azure": _OPENAI,
    "openai": _OPENAI,
    "openrouter": _OPENAI,
    "cohere": ModelLimits(96, 96_000, 512),
    "dashscope": ModelLimits(10, 80_000, 8192),
    "gemini": ModelLimits(100, 20_000, 2048),
    "mistral": ModelLimits(96, 16_000, 8192),
    "voyage": ModelLimits(128, 100_000, 16_000),
}
#: Limits of an unknown provider.
_UNKNOWN_PROVIDER = ModelLimits(96, 32_000, 8192)
#: Models with at least this limit accept so much more than a chunk that a small margin is enough. Below it the margin
#: is a quarter, because tokenizers differ by as much.
_WIDE_INPUT_TOKENS = 8191
#: Model families whose tokenizer is cl100k itself, so that counts are exact.
_CL100K_MODELS = ("text-embedding-3-", "text-embedding-ada-002")


def limits(model: str) -> ModelLimits:
    """Return the provider's limits; conservative ones for an unknown provider."""
    if local := MODELS.get(model):
        return ModelLimits(local.max_inputs, local.max_inputs * local.max_pieces, local.profile.max_input_tokens)
    provider, slash, _ = model.partition("/")
    return _LIMITS.get(provider if slash else "", _UNKNOWN_PROVIDER)


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """The address and key of a provider. Its client fills in None from the provider's own environment variables."""

    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)


def is_local(model: str) -> bool:
    """Return whether a model runs in our own processes, without a provider and free of charge."""
    return model.startswith("local/")


def legibility(model: str, text: str) -> float:
    """Return how well a model reads a text, 0 to 1; 1 for models of many languages."""
    return MODELS[model].legibility(text) if model in MODELS else 1.0


def unrelated_cosine(model: str) -> float:
    """Return the cosine of unrelated texts, as far as it is known."""
    return MODELS[model].unrelated_cosine if model in MODELS else 0.0


def same_provider(model: str, other: str) -> bool:
    """Return whether the access settings of one model may be used for the other.

    LiteLLM guesses the provider of a name without a prefix, so such a name matches only itself.
    """
    provider, slash, _ = model.partition("/")
    return model == other or (bool(slash) and provider == other.partition("/")[0] and "/" in other)


def check_allowed(model: str, *, default: str, patterns: Sequence[str] | None) -> None:
    """Raise `ModelNotAllowed` unless the operator allows the model. LiteLLM interprets some names as an address.

    A name that contains an address must be listed literally; patterns do not allow it.
    """
    check_listed("embedding", model, [default, *(["local/*"] if patterns is None else patterns)])


def check_listed(kind: str, model: str, allowed: Sequence[str]) -> None:
    """Raise `ModelNotAllowed` unless `allowed` has the model's name, or a pattern for it; see `check_allowed`."""
    if model in allowed or ("://" not in model and any(name_matches(pattern, model) for pattern in allowed)):
        return
    raise ModelNotAllowed(
        f"The {kind} model {model!r} is not allowed; choose one of {', '.join(dict.fromkeys(allowed))}, "
        "or ask the operator to add it to ALLOWED_MODELS."
    )


_profiles: dict[Hashable, EmbedderProfile] = {}
#: Maximum number of models probed at the same time: each probe occupies a thread.
_MAX_PROBES = 4
#: Seconds that a further caller waits for a probe to end.
_PROBE_SLOT_SECONDS = 5.0
_probes = Slots(_MAX_PROBES)


def resolve(
    model: str,
    dimensions: int | None,
    access: ProviderAccess | None = None,
) -> EmbedderProfile:
    """Return the profile of a model. One word probes it, and the process caches the answer.

    Raises `ModelRefused` if the model does not exist, refuses the key, or has other dimensions than requested. Raises
    `EmbeddingUnavailable` if the provider does not answer at the moment, or if too many models are being probed.
    """
    access = access or ProviderAccess()
    key = (model, dimensions, access)
    if key not in _profiles:
        busy = f"{_MAX_PROBES} models are already being asked for their dimensions; try again shortly."
        with _probes.within(_PROBE_SLOT_SECONDS, EmbeddingUnavailable(busy)):
            if key not in _profiles:
                _profiles[key] = _probe(model, dimensions, access)
    return _profiles[key]


def _probe(model: str, dimensions: int | None, access: ProviderAccess) -> EmbedderProfile:
    if is_local(model):
        return _probe_local(model, dimensions)
    try:
        native = provider.native_dimensions(model, dimensions, access.api_base, access.api_key)
    except (EmbeddingRefused, EmbeddingUnauthorized) as error:
        raise ModelRefused(error.message) from error
    if dimensions is not None and native != dimensions:
        raise ModelRefused(
            f"{model} returns {native} dimensions, not {dimensions}; set `dimensions` to {native}, or omit it."
        )
    return EmbedderProfile(model=model, dimensions=native, max_input_tokens=_input_tokens(model))


def _probe_local(model: str, dimensions: int | None) -> EmbedderProfile:
    local = MODELS.get(model)
    if local is None:
        raise ModelRefused(f"The local model {model} does not exist; use {' or '.join(MODELS)}.")
    if dimensions not in {None, local.profile.dimensions}:
        raise ModelRefused(f"{model} has {local.profile.dimensions} dimensions, not {dimensions}; omit `dimensions`.")
    local.check()
    return local.profile.with_precision(minilm.fastest_precision())


def _input_tokens(model: str) -> int:
    """Return the cl100k tokens that the model safely accepts, with a margin if its own tokenizer may count more."""
    limit = limits(model).max_input_tokens
    max_tokens = min(limit, known_models.known_input_tokens(model) or limit)
    if model.rpartition("/")[2].startswith(_CL100K_MODELS):
        return max_tokens
    return max_tokens - max(max_tokens // 4, 1) if max_tokens < _WIDE_INPUT_TOKENS else min(max_tokens, 8000)


def open_embedder(
    profile: EmbedderProfile,
    access: ProviderAccess | None = None,
    *,
    batch_size: int | None = None,
    explicit_dimensions: bool = False,
    for_queries: bool = False,
) -> Embedder:
    """Create a profile's embedder without any request. `batch_size` overrides the model's limit on texts per request.

    Some local models embed queries differently from passages.
    """
    if is_local(profile.model):
        return MODELS[profile.model].open(profile.precision, for_queries)
    model_limits, access = limits(profile.model), access or ProviderAccess()
    return provider.ProviderEmbedder(
        profile,
        api_base=access.api_base,
        api_key=access.api_key,
        max_inputs=batch_size or model_limits.max_inputs,
        max_request_tokens=model_limits.max_request_tokens,
        explicit_dimensions=explicit_dimensions,
    )


def tokenizer_for(profile: EmbedderProfile) -> Tokenizer:
    """Return a local model's own tokenizer, or cl100k for other models; `max_input_tokens` includes a margin for it."""
    if is_local(profile.model):
        return MODELS[profile.model].tokenizer()
    return cl100k()
