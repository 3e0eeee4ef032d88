"""The workers' current budget for each model, for lists of models and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import RedisError

from api.models.offered import OfferedOptions, named
from schemas.model import Kind, ModelBudget, ModelInfo
from worker.embed.fleet import BudgetState
from worker.embed.models import is_local
from worker.embed.rates import SharedRate
from worker.resources import Resources

log = structlog.get_logger()

#: A gauge for each field of a budget: its name and help.
_GAUGES = {
    "requests_per_minute": "Requests that all workers may send a minute",
    "tokens_per_minute": "Tokens that all workers may send a minute",
    "requests_left": "Requests that may be sent now",
    "tokens_left": "Tokens that may be sent now",
    "failures": "Requests that failed in a row",
    "active_projects": "Projects that asked for the budget within the last seconds",
    "blocked_seconds": "Seconds until workers ask the provider again",
}


def with_budgets(resources: Resources, listed: Sequence[ModelInfo]) -> list[ModelInfo]:
    """The models with what workers may spend on them."""
    rates = {key: rate for each in listed if (rate := _rate(resources, *(key := (each.kind, each.model))))}
    states = dict(zip(rates, _states(resources, list(rates.values())), strict=True))
    return [
        each.model_copy(update={"budget": _budget(rates[key], states[key])})
        if (key := (each.kind, each.model)) in rates
        else each
        for each in listed
    ]


class ModelBudgets(Collector):
    """The budgets of the models that settings name, as gauges."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges; limits alone while Redis is away."""
        models = named(self._resources.settings.values(OfferedOptions))
        rates = {key: rate for key in models if (rate := _rate(self._resources, *key))}
        states = _states(self._resources, list(rates.values()))
        families = {
            field: GaugeMetricFamily(f"foldex_provider_{field}", text, labels=["kind", "model"])
            for field, text in _GAUGES.items()
        }
        for (labels, rate), state in zip(rates.items(), states, strict=True):
            for field, value in _values(rate, state):
                families[field].add_metric(labels, value)
        return families.values()


def _values(rate: SharedRate, state: BudgetState | None) -> Iterator[tuple[str, float]]:
    """The fields of a budget that are limited and known."""
    found = {"requests_per_minute": rate.requests, "tokens_per_minute": rate.tokens}
    for field in _GAUGES:
        value = found[field] if field in found else getattr(state, field, None)
        if value is not None:
            yield field, value


def _rate(resources: Resources, kind: Kind, model: str) -> SharedRate | None:
    if is_local(model) or kind == "rerank":
        return None
    return resources.llm_rate(model) if kind == "chat" else resources.embedding_rate(model)


def _states(resources: Resources, rates: Sequence[SharedRate]) -> Sequence[BudgetState | None]:
    """The state of each budget; None while Redis is away."""
    try:
        return resources.fleet_view.states(rates) if rates else []
    except RedisError as error:
        log.warning("Redis does not answer; what is left of the budgets is unknown", error=str(error))
        return [None] * len(rates)


def _budget(rate: SharedRate, state: BudgetState | None) -> ModelBudget:
    blocked_for = timedelta(seconds=state.blocked_seconds if state else 0)
    return ModelBudget(
        requests_per_minute=rate.requests,
        tokens_per_minute=rate.tokens,
        window_seconds=rate.rate.window,
        requests_left=state and state.requests_left,
        tokens_left=state and state.tokens_left,
        blocked_until=datetime.now(UTC) + blocked_for if blocked_for else None,
        reason=(state and state.reason) or None,
        failures=state and state.failures,
        active_projects=state and state.active_projects,
    )
