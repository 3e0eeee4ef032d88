"""The embedding, chat and rerank models that a service offers."""

from __future__ import annotations

from datetime import datetime

from foldex_client.models.base import Model


class ModelCheck(Model):
    """Whether a model answered one tiny request, seconds ago. `checked_at` is None from older services."""

    ok: bool
    took_ms: float
    checked_at: datetime | None = None
    code: str | None = None
    detail: str | None = None


class ModelBudget(Model):
    """The budget of all workers together for a model. A limit is None if there is none; see the HTTP reference."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    window_seconds: int
    requests_left: int | None
    tokens_left: int | None
    blocked_until: datetime | None
    reason: str | None
    failures: int | None
    active_projects: int | None


class ModelInfo(Model):
    """A model that is configured or allowed. Prices are US dollars; see the HTTP reference for their units."""

    model: str
    provider: str | None
    kind: str
    default: bool
    dimensions: int | None
    max_input_tokens: int | None
    max_inputs: int | None
    max_request_tokens: int | None
    max_output_tokens: int | None
    input_price: float | None
    output_price: float | None
    query_price: float | None
    budget: ModelBudget | None = None
    check: ModelCheck | None = None


class Models(Model):
    """All models that an installation offers."""

    items: list[ModelInfo]
