"""Reranks candidates by a model that reads them together with the query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

from api.http.shares import elsewhere
from schemas.errors import RerankNotConfigured
from worker.embed import litellm
from worker.embed.models import is_local
from worker.embed.rate_limit import no_check
from worker.llm import chat_scores, cross_encoder, rerank_scores
from worker.llm.litellm import Check, Provider
from worker.resources import Resources

Kind = Literal["model", "llm"]

#: Candidates that a model reads at most.
CANDIDATES = 50
#: Share of `SEARCH_SECONDS` that a model has, so that the answer still comes in time without its order.
TIME_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """The settings of reranking, by the names they have in `worker.settings`."""

    rerank_model: str | None
    rerank_api_base: str | None
    rerank_api_key: str | None
    search_seconds: float
    default_llm_model: str | None
    llm_api_base: str | None
    llm_api_key: str | None


def rerank_by_model(
    resources: Resources, kind: Kind, query: str, candidates: Sequence[tuple[str, str]], check: Check = no_check
) -> list[tuple[str, float]]:
    """Rerank (id, text) candidates. Returns each id once, best first, with a score from 0 to 1; ties keep their order.

    Only the first `CANDIDATES` are scored and sent; the others follow in their order, with score 0. Raises
    `RerankNotConfigured`, and `RerankUnavailable` if no usable answer comes in time. `check` is called during the wait,
    and may raise to end the request.
    """
    options = resources.settings.values(RerankOptions)
    provider = provider_of(options, kind)
    sent = candidates[:CANDIDATES]
    texts = [text for _, text in sent]
    with elsewhere() if is_remote(provider.model) else nullcontext():
        scores = _scores(kind, provider, query, texts, check) if texts else []
    scored = zip((id_ for id_, _ in sent), scores, strict=True)
    unscored = [(id_, 0.0) for id_, _ in candidates[len(sent) :]]
    return [*sorted(scored, key=lambda id_and_score: -id_and_score[1]), *unscored]


def warm(options: RerankOptions) -> None:
    """If a model is configured, do its slow imports and loads now, so that no query waits for them."""
    if is_remote(options.rerank_model) or is_remote(options.default_llm_model):
        litellm.warm()
    if options.rerank_model and is_local(options.rerank_model):
        cross_encoder.warm(options.rerank_model)


def is_remote(model: str | None) -> bool:
    """Whether a provider answers for a model. `local/extractive` only summarises."""
    return model is not None and not is_local(model)


def provider_of(options: RerankOptions, kind: Kind) -> Provider:
    """The provider of a kind. Raises `RerankNotConfigured`; call it early to reject a query before it costs money."""
    o = options
    if kind == "model":
        name, base, key, prefix = o.rerank_model, o.rerank_api_base, o.rerank_api_key, "RERANK"
    else:
        name, base, key, prefix = o.default_llm_model, o.llm_api_base, o.llm_api_key, "LLM"
    variable = "RERANK_MODEL" if kind == "model" else "DEFAULT_LLM_MODEL"
    if name is None or (kind == "llm" and not is_remote(name)):
        raise RerankNotConfigured(f'rerank: "{kind}" needs a model; set {variable}, or send rerank: "boost".')
    return Provider(
        name, base, key, TIME_SHARE * o.search_seconds, f"{variable}, {prefix}_API_BASE and {prefix}_API_KEY"
    )


def _scores(kind: Kind, provider: Provider, query: str, texts: Sequence[str], check: Check) -> list[float]:
    ask = rerank_scores.scores if kind == "model" else chat_scores.scores
    return ask(provider, query, texts, check)
