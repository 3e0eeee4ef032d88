"""Reranks candidates by a model that reads them together with the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from schemas.errors import RerankNotConfigured
from worker.embed import litellm
from worker.embed.rate_limit import unchecked
from worker.llm import chat_scores, rerank_scores
from worker.llm.litellm import Check, Provider
from worker.resources import Resources
from worker.settings import Settings

Kind = Literal["model", "llm"]


def reranked(
    resources: Resources, kind: Kind, query: str, candidates: Sequence[tuple[str, str]], check: Check = unchecked
) -> list[tuple[str, float]]:
    """Rerank (id, text) candidates. Returns each id once, best first, with a score from 0 to 1; ties keep their order.

    Only the first `RERANK_CANDIDATES` are judged and sent; the others follow in their order, with score 0. Raises
    `RerankNotConfigured`, and `RerankUnavailable` if no usable answer comes within `RERANK_SECONDS`. `check` is called
    during the wait, and may raise to end the request.
    """
    settings = resources.settings
    provider = provider_of(settings, kind)
    judged = candidates[: settings.rerank_candidates]
    texts = [text for _, text in judged]
    scores = _scores(settings, kind, provider, query, texts, check) if texts else []
    found = zip((id_ for id_, _ in judged), scores, strict=True)
    behind = [(id_, 0.0) for id_, _ in candidates[len(judged) :]]
    return [*sorted(found, key=lambda scored: -scored[1]), *behind]


def warm(settings: Settings) -> None:
    """If a model is configured, do its slow imports now, so that no query waits for them."""
    if settings.rerank_model or settings.default_llm_model:
        litellm.warm()


def provider_of(settings: Settings, kind: Kind) -> Provider:
    """The provider of a kind. Raises `RerankNotConfigured`; call it early to reject a query before it costs money."""
    s = settings
    if kind == "model":
        name, base, key, prefix = s.rerank_model, s.rerank_api_base, s.rerank_api_key, "RERANK"
    else:
        name, base, key, prefix = s.default_llm_model, s.llm_api_base, s.llm_api_key, "LLM"
    variable = "RERANK_MODEL" if kind == "model" else "DEFAULT_LLM_MODEL"
    if name is None:
        raise RerankNotConfigured(f'rerank: "{kind}" needs a model; set {variable}, or ask with rerank: "boost".')
    return Provider(name, base, key, s.rerank_seconds, f"{variable}, {prefix}_API_BASE and {prefix}_API_KEY")


def _scores(
    settings: Settings, kind: Kind, provider: Provider, query: str, texts: Sequence[str], check: Check
) -> list[float]:
    if kind == "model":
        return rerank_scores.scores(provider, query, texts, settings.rerank_max_tokens, check)
    return chat_scores.scores(provider, query, texts, check)
