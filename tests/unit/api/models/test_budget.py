"""What `GET /api/models` and `/metrics` say of the budgets that workers share, by what is in a real Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis import Redis
from starlette.testclient import TestClient

from api.main import create_app
from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingUnavailable
from tests.service import next_broker
from worker.embed.rate_limit import RateBudget
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings

EMBEDDER, WRITER = "openai/embedder", "openai/writer"
NOWHERE = "redis://127.0.0.1:1/0"


class Installation:
    """Its workers' budgets, and its API."""

    def __init__(self, redis_url: str, **settings: Any) -> None:
        models = {"default_embedding_model": EMBEDDER, "default_llm_model": WRITER, **settings}
        self.settings = Settings(
            database_url="postgresql://127.0.0.1:1/none", redis_url=redis_url, auth="off", **models
        )
        self.workers = Resources(self.settings)
        self.api = TestClient(create_app(self.settings), base_url="http://127.0.0.1", client=("127.0.0.1", 1))

    @property
    def embedding(self) -> RateBudget:
        found = self.workers.budget(EmbedderProfile(model=EMBEDDER, dimensions=3))
        assert found is not None
        return found

    @property
    def writing(self) -> RateBudget:
        found = self.workers.llm_budget(WRITER)
        assert found is not None
        return found

    def told(self, model: str = EMBEDDER) -> dict[str, Any]:
        """The budget of a model as the API lists it."""
        items = self.api.get("/api/models").json()["items"]
        (found,) = [each["budget"] for each in items if each["model"] == model]
        return dict(found)

    def gauges(self, model: str = EMBEDDER) -> dict[str, float]:
        """The budget of a model for Prometheus."""
        label = rf'model="{re.escape(model)}"'
        lines = re.findall(
            rf"^foldex_provider_(\w+)\{{.*{label}.*\}} (\S+)$", self.api.get("/metrics").text, re.MULTILINE
        )
        return {name: float(value) for name, value in lines}


@pytest.fixture
def broker(redis_url: str) -> Iterator[str]:
    url = next_broker(redis_url)
    yield url
    with Redis.from_url(url) as redis:
        redis.flushdb()


def answered() -> str:
    return "an answer"


def test_what_is_left_follows_what_is_spent(broker: str) -> None:
    here = Installation(broker, embedding_rpm=6, embedding_tpm=1000)
    unspent = {"requests_per_minute": 6, "tokens_per_minute": 1000, "window_seconds": 60}
    assert unspent.items() <= here.told().items()
    assert (here.told()["requests_left"], here.told()["tokens_left"], here.told()["active_projects"]) == (6, 1000, 0)
    here.embedding.call(answered, project="p", tokens=300)
    told = here.told()
    assert (told["requests_left"], told["tokens_left"], told["active_projects"]) == (5, 700, 1)
    assert here.gauges() == {
        "requests_per_minute": 6,
        "tokens_per_minute": 1000,
        "requests_left": 5,
        "tokens_left": 700,
        "failures": 0,
        "active_projects": 1,
        "blocked_seconds": 0,
    }
    for _ in range(7):  # a query is never held back by the limits
        here.embedding.query(answered, tokens=100)
    assert (here.told()["requests_left"], here.told()["tokens_left"]) == (0, 0)
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_RPM"):
        here.embedding.call(answered, project="p", tokens=1, patience=0)


def test_summaries_have_a_budget_of_their_own(broker: str) -> None:
    here = Installation(broker, embedding_rpm=6, llm_rpm=12, llm_tpm=5000)
    here.writing.call(answered, project="p", tokens=400)
    told = here.told(WRITER)
    assert (told["requests_per_minute"], told["requests_left"], told["tokens_left"]) == (12, 11, 4600)
    assert here.gauges(WRITER)["tokens_left"] == 4600
    assert here.told()["requests_left"] == 6


def test_a_larger_budget_is_counted_in_short_windows(broker: str) -> None:
    here = Installation(broker, embedding_rpm=600)
    here.embedding.query(answered, tokens=10)
    told = here.told()
    assert (told["requests_per_minute"], told["window_seconds"], told["tokens_per_minute"]) == (600, 10, None)
    # 600 a minute are 100 in 10 s
    assert told["requests_left"] in {99, 100}
    assert told["tokens_left"] is None


def test_a_blocked_provider_is_told_with_the_end_and_the_reason(broker: str) -> None:
    here = Installation(broker)
    assert (here.told()["blocked_until"], here.told()["reason"], here.told()["failures"]) == (None, None, 0)

    def refused() -> str:
        raise EmbeddingUnavailable("no", provider_status=429, retry_after=90)

    before = datetime.now(UTC)
    with pytest.raises(EmbeddingUnavailable):
        here.embedding.call(refused, project="p", tokens=1)
    told = here.told()
    until = datetime.fromisoformat(told["blocked_until"])
    assert before + timedelta(seconds=80) < until <= datetime.now(UTC) + timedelta(seconds=90)
    assert (told["reason"], told["failures"]) == (f"{EMBEDDER} is busy (HTTP 429)", 1)
    assert (told["requests_per_minute"], told["requests_left"]) == (None, None)
    assert 80 < here.gauges()["blocked_seconds"] <= 90
    assert here.told(WRITER)["blocked_until"] is None


def test_while_redis_is_away_the_limits_alone_are_known() -> None:
    here = Installation(NOWHERE, embedding_rpm=60, embedding_tpm=1000)
    assert here.told() == {
        "requests_per_minute": 60,
        "tokens_per_minute": 1000,
        "window_seconds": 10,
        **dict.fromkeys(["requests_left", "tokens_left", "blocked_until", "reason", "failures", "active_projects"]),
    }
    assert here.gauges() == {"requests_per_minute": 60, "tokens_per_minute": 1000}


def test_models_without_limits_have_no_budget(broker: str) -> None:
    here = Installation(
        broker, default_embedding_model=LOCAL_MODEL, default_llm_model="local/extractive", rerank_model="cohere/ranker"
    )
    assert {each["budget"] for each in here.api.get("/api/models").json()["items"]} == {None}
    assert "foldex_provider_failures{" not in here.api.get("/metrics").text


def test_metrics_have_the_models_that_settings_name_and_no_pattern(broker: str) -> None:
    here = Installation(broker, allowed_models="openai/text-embedding-3-* voyage/voyage-4", embedding_rpm=6)
    assert here.told("openai/text-embedding-3-small")["requests_left"] == 6
    text = here.api.get("/metrics").text
    named = re.findall(r'^foldex_provider_failures\{kind="(\w+)",model="(.+)"\}', text, re.MULTILINE)
    assert named == [("embedding", EMBEDDER), ("embedding", "voyage/voyage-4"), ("chat", WRITER)]
