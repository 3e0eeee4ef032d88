"""Trees that two workers build at once share one budget of requests and tokens, and one back-off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from redis import Redis

from api.stack.processes import running
from tests.fakes.chat import ChatFake
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.hold import Hold
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.test_tree_models import Library
from tests.service import NewService, another_node, eventually, service
from worker.embed.rates import Rate

RPM, TPM = 180, 180_000
RATE = Rate.per_minute(RPM, TPM)
#: A prompt with which tokens are used up long before requests are.
LONG_PROMPT = f"{'a ' * 3000} {{text}}"
#: Seconds that a busy provider asks for.
RETRY_AFTER = 6


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, new_service: NewService) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("root")
    with EmbeddingsFake() as embeddings, ChatFake() as chat, FakeTurbopuffer() as store:
        env = {**embeddings.env, **chat.env, **store.env, "LOCAL_SOURCE_ROOTS": str(root), "LLM_RPM": str(RPM)}
        env["LLM_TPM"] = str(TPM)
        with (
            new_service(partial(service, bulk=1), **env) as started,
            running(another_node(started.env, "bulk", "second", 1), started.home),
        ):
            yield Library(started, chat, root, store, embeddings)


@pytest.fixture
def library(shared: Library) -> Library:
    shared.chat.reset()
    return shared


def two_builds(library: Library, *names: str, files: int, **raptor: Any) -> dict[str, tuple[str, Hold]]:
    """Tools whose first requests wait. A node builds one tree at a time, so each is on a node of its own."""
    holds = {name: library.chat.holds.add("chat", name) for name in names}
    options = {"summary_num_workers": 1, "min_cluster_size": 2, **raptor}
    tools = {name: library.tool(name, files, **options) for name in names}
    for hold in holds.values():
        eventually(lambda hold=hold: bool(hold.arrived), 60, library.service.logs)  # type: ignore[misc] # mypy infers no default's type
    return {name: (tools[name], holds[name]) for name in names}


def blocked_for(library: Library) -> float:
    """Seconds for which no worker may ask the model."""
    with Redis.from_url(library.service.env["REDIS_URL"]) as redis:
        keys = list(redis.scan_iter("foldex:{llm *:blocked"))
        return max((redis.pttl(key) / 1000 for key in keys), default=0)


def test_all_workers_wait_as_long_as_the_provider_asks_one_of_them(library: Library) -> None:
    builds = two_builds(library, "alpha", "betas", files=12)
    (told, first), (other, second) = builds.values()
    library.chat.fail_next(429, retry_after=RETRY_AFTER)
    first.release()
    eventually(lambda: blocked_for(library) > 0, 30, library.service.logs)
    asked, now = library.chat.requests, time.monotonic()
    until = now + blocked_for(library)
    second.release()
    for tool in (told, other):
        assert library.ended(tool)["skipped"] == {}
    later = [when for when, _ in library.chat.arrivals[asked:]]
    assert asked == len(builds)
    assert later
    assert min(later) > until - 0.01


def test_two_workers_together_send_no_more_than_the_budget(library: Library) -> None:
    assert RATE.requests is not None
    began = time.monotonic()
    builds = two_builds(library, "gamma", "delta", files=60)
    for _, hold in builds.values():
        hold.release()
    for tool, _ in builds.values():
        library.ended(tool, seconds=120)
    assert library.chat.requests > RATE.requests
    for number, (when, _) in enumerate(library.chat.arrivals, start=1):
        windows = int((when - began) / RATE.window) + 1
        assert number <= windows * RATE.requests


def test_two_workers_together_send_no_more_tokens_than_the_budget(library: Library) -> None:
    assert RATE.tokens is not None
    with Redis.from_url(library.service.env["REDIS_URL"]) as redis:
        # the windows of what was spent begin with the first request
        for key in redis.scan_iter("*foldex:rate*"):
            redis.delete(key)
    began = time.monotonic()
    builds = two_builds(library, "epsilon", "zeta", files=16, summary_num_workers=4, summary_prompt=LONG_PROMPT)
    for _, hold in builds.values():
        hold.release()
    for tool, _ in builds.values():
        library.ended(tool, seconds=120)
    spent = 0
    for when, tokens in library.chat.charged:
        spent += tokens
        windows = int((when - began) / RATE.window) + 1
        assert spent <= windows * RATE.tokens
    assert spent > RATE.tokens
