"""Asks models whether they answer, with one tiny request each, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock

import structlog

from api.search.rank import rerank
from schemas.errors import EmbeddingUnavailable, FoldexError, RerankUnavailable
from schemas.model import ModelCheck, ModelInfo
from worker.embed import litellm, models
from worker.embed.provider import native_dimensions, warm
from worker.llm import chat_scores, rerank_scores
from worker.resources import Resources

#: Seconds that a model has to answer.
CHECK_SECONDS = 10.0
#: Seconds for which an outcome is kept: each check costs a request.
KEPT_SECONDS = 10.0
#: Maximum models that are checked. A pattern may allow hundreds.
MAX_CHECKS = 32

log = structlog.get_logger()


class ModelChecks:
    """The outcomes of one process. Thread-safe. Callers who ask at the same time share one request."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(MAX_CHECKS, thread_name_prefix="model-check")
        self._begun: dict[tuple[str, str], tuple[float, Future[ModelCheck]]] = {}

    def checked(self, offered: Sequence[ModelInfo]) -> list[ModelInfo]:
        """The models with their checks. Defaults are checked first; beyond `MAX_CHECKS` there is no check."""
        first = sorted(offered, key=lambda each: not each.default)[:MAX_CHECKS]
        for each in first:
            _warm(each)
        begun = {(each.kind, each.model): self._begin(each) for each in first}
        until = time.monotonic() + CHECK_SECONDS
        return [
            each.model_copy(update={"check": _outcome(each, begun[key], until)})
            if (key := (each.kind, each.model)) in begun
            else each
            for each in offered
        ]

    def _begin(self, model: ModelInfo) -> Future[ModelCheck]:
        key, now = (model.kind, model.model), time.monotonic()
        with self._lock:
            began, future = self._begun.get(key, (-KEPT_SECONDS, None))
            if future is None or now - began >= KEPT_SECONDS:
                future = self._pool.submit(_check, self._resources, model)
                self._begun[key] = now, future
        return future


def _warm(model: ModelInfo) -> None:
    """Import the client that asks a model: this must not count as the provider's time."""
    if models.is_local(model.model):
        return
    if model.kind == "embedding":
        warm(model.model)
    else:
        litellm.warm()


def _outcome(model: ModelInfo, future: Future[ModelCheck], until: float) -> ModelCheck:
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        code = (EmbeddingUnavailable if model.kind == "embedding" else RerankUnavailable).code
        detail = f"{model.model} did not answer within {CHECK_SECONDS:g} s; check its address and its provider."
        return ModelCheck(
            ok=False, took_ms=CHECK_SECONDS * 1000, checked_at=datetime.now(UTC), code=code, detail=detail
        )


def _check(resources: Resources, model: ModelInfo) -> ModelCheck:
    started = time.perf_counter()
    code = detail = None
    try:
        _ask(resources, model)
    except FoldexError as error:
        code, detail = error.code, error.message
    except Exception as error:  # a provider's client may raise anything, whose text is not ours to show
        log.warning("the check of a model failed", model=model.model, exc_info=error)
        code, detail = "internal", f"The check of {model.model} failed; see the log of the API."
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    return ModelCheck(ok=code is None, took_ms=took_ms, checked_at=datetime.now(UTC), code=code, detail=detail)


def _ask(resources: Resources, model: ModelInfo) -> None:
    if model.kind == "embedding":
        _embed(resources, model.model)
        return
    options = resources.settings.values(rerank.RerankOptions)
    provider = rerank.provider_of(options, "model" if model.kind == "rerank" else "llm")
    provider = replace(provider, seconds=CHECK_SECONDS)
    if model.kind == "rerank":
        rerank_scores.scores(provider, "word", ["word"])
    else:
        chat_scores.scores(provider, "word", ["word"])


def _embed(resources: Resources, model: str) -> None:
    if models.is_local(model):
        profile, _ = resources.profile(model, None, in_use=model)
        # the files of others are there; this process keeps in memory only what is used
        if model == resources.settings.default_embedding_model:
            resources.embedder(profile, explicit_dimensions=False).embed(["word"])
        return
    access, is_default = resources.access_to(model), model == resources.settings.default_embedding_model
    dimensions = resources.settings.embedding_dimensions if is_default else None
    native_dimensions(model, dimensions, access.api_base, access.api_key, seconds=CHECK_SECONDS)
