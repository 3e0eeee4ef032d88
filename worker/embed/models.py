"""What is known of embedding models, and the way from a model's name to an embedder."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, EmbeddingUnavailable, ModelNotAllowed, ModelRefused
from schemas.source import EmbedderProfile
from worker.embed import Embedder, litellm
from worker.embed.local import minilm
from worker.embed.local.wordpieces import WordPieces
from worker.tokens.tokenizers import Tokenizer, cl100k


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What a model takes: texts a request, tokens a request in all, tokens of one text."""

    max_inputs: int
    max_request_tokens: int
    max_input_tokens: int


_OPENAI = ModelLimits(2048, 300_000, 8192)
#: By the provider in front of the model's name. A name without one is OpenAI's.
_LIMITS = {
    "": _OPENAI,
    "azure": _OPENAI,
    "openai": _OPENAI,
    "openrouter": _OPENAI,
    "cohere": ModelLimits(96, 96_000, 512),
    "gemini": ModelLimits(100, 20_000, 2048),
    "local": ModelLimits(minilm.MAX_INPUTS, minilm.MAX_INPUTS * minilm.MAX_PIECES, minilm.PROFILE.max_input_tokens),
    "mistral": ModelLimits(96, 16_000, 8192),
    "voyage": ModelLimits(128, 100_000, 16_000),
}
_CAUTIOUS = ModelLimits(96, 32_000, 8192)
#: Models from here on take so much more than a chunk that a small margin does; below, tokenizers differ by a quarter.
_WIDE = 8191
#: Families whose tokenizer is cl100k itself, so that counts are exact.
_CL100K = ("text-embedding-3-", "text-embedding-ada-002")


def limits(model: str) -> ModelLimits:
    """The provider's limits; cautious ones for a provider that is not known."""
    provider, slash, _ = model.partition("/")
    return _LIMITS.get(provider if slash else "", _CAUTIOUS)


@dataclass(frozen=True, slots=True)
class Access:
    """The address and key of a provider; None leaves either to LiteLLM, which knows each provider's own variable."""

    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)


def is_local(model: str) -> bool:
    """Whether a model runs in our own processes, so that nobody is asked and nothing is paid."""
    return model.startswith("local/")


def same_provider(model: str, other: str) -> bool:
    """Whether what was set for one model may be sent for the other.

    LiteLLM guesses the provider of a name without a prefix, so such a name is like no other.
    """
    provider, slash, _ = model.partition("/")
    return model == other or (bool(slash) and provider == other.partition("/")[0] and "/" in other)


def check_allowed(model: str, *, default: str, patterns: Sequence[str] | None) -> None:
    """Raise `ModelNotAllowed` unless the operator allows a model: LiteLLM reads some names as an address.

    A name that holds an address is allowed only if it is listed letter by letter, whatever patterns match it.
    """
    allowed = [default, *(["local/*"] if patterns is None else patterns)]
    if model in allowed or ("://" not in model and any(fnmatchcase(model, pattern) for pattern in allowed)):
        return
    raise ModelNotAllowed(
        f"The embedding model {model!r} is not allowed here; choose one of {', '.join(dict.fromkeys(allowed))}, "
        "or have the operator add it to ALLOWED_MODELS."
    )


_found: dict[Hashable, EmbedderProfile] = {}
#: Models that are asked at the same time, and seconds that a further caller waits for his turn: each takes up a thread.
_PROBES, _TURN = 4, 5.0
_probing = threading.BoundedSemaphore(_PROBES)


def resolve(
    model: str,
    dimensions: int | None,
    access: Access | None = None,
    *,
    local_model_dir: Path | None = None,
) -> EmbedderProfile:
    """The profile of a model that answers: asked with one word, and known to the process then.

    Raises `ModelRefused` if it does not exist, refuses the key, or has other dimensions than asked for, and
    `EmbeddingUnavailable` if the provider does not answer now, or too many models are being asked.
    """
    access = access or Access()
    key = (model, dimensions, access, local_model_dir)
    if key not in _found:
        if not _probing.acquire(timeout=_TURN):
            raise EmbeddingUnavailable(f"{_PROBES} models are asked for their dimensions just now; try again shortly.")
        try:
            if key not in _found:
                _found[key] = _probe(model, dimensions, access, local_model_dir)
        finally:
            _probing.release()
    return _found[key]


def _probe(model: str, dimensions: int | None, access: Access, local_model_dir: Path | None) -> EmbedderProfile:
    if is_local(model):
        return _probe_local(model, dimensions, local_model_dir)
    try:
        answered = litellm.native_dimensions(model, dimensions, access.api_base, access.api_key)
    except (EmbeddingRefused, EmbeddingUnauthorized) as error:
        raise ModelRefused(error.message) from error
    if dimensions is not None and answered != dimensions:
        raise ModelRefused(f"{model} answers with {answered} dimensions, not {dimensions}: ask for {answered} or none.")
    return EmbedderProfile(model=model, dimensions=answered, max_input_tokens=_input_tokens(model))


def _probe_local(model: str, dimensions: int | None, directory: Path | None) -> EmbedderProfile:
    if model != minilm.MODEL:
        raise ModelRefused(f"There is no local model {model}: the one there is is {minilm.MODEL}.")
    if dimensions not in {None, minilm.DIMENSIONS}:
        raise ModelRefused(f"{model} has {minilm.DIMENSIONS} dimensions, not {dimensions}: leave them out.")
    minilm.check_files(directory)
    return minilm.PROFILE


def _input_tokens(model: str) -> int:
    """Tokens of cl100k that the model surely takes: a margin stays where its own tokenizer may count more."""
    limit = limits(model).max_input_tokens
    known = min(limit, litellm.known_input_tokens(model) or limit)
    if model.rpartition("/")[2].startswith(_CL100K):
        return known
    return known - max(known // 4, 1) if known < _WIDE else min(known, 8000)


def open_embedder(
    profile: EmbedderProfile,
    access: Access | None = None,
    *,
    batch_size: int | None = None,
    explicit_dimensions: bool = False,
    local_model_dir: Path | None = None,
) -> Embedder:
    """The embedder of a profile, without asking anybody. `batch_size` replaces the model's limit of texts a request."""
    if is_local(profile.model):
        return minilm.LocalEmbedder(local_model_dir)
    known, access = limits(profile.model), access or Access()
    return litellm.LiteLLMEmbedder(
        profile,
        api_base=access.api_base,
        api_key=access.api_key,
        max_inputs=batch_size or known.max_inputs,
        max_request_tokens=known.max_request_tokens,
        explicit_dimensions=explicit_dimensions,
    )


def tokenizer_for(profile: EmbedderProfile, local_model_dir: Path | None = None) -> Tokenizer:
    """The model's own tokenizer for the local model, else cl100k, for which `max_input_tokens` holds a margin."""
    if is_local(profile.model):
        return WordPieces(minilm.model_directory(local_model_dir))
    return cl100k()
