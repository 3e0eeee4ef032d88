"""A provider that is busy, down or rejects requests: what a fleet sends, by its own records, and what users see."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from redis import Redis

from schemas.errors import EmbeddingUnavailable
from tests.fakes.embeddings import EmbeddingsFake, Request
from tests.service import NewService, Service, eventually, with_one_worker
from worker.embed import Vectors
from worker.embed.rate_limit import RateBudget
from worker.embed.rates import Rate
from worker.embed.retry import DROPS_TO_REFUSE

#: Seconds between a request's permission and its record at the provider, at most, on a machine with other load.
LATE = 0.5


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture
def provider(running: EmbeddingsFake) -> Iterator[EmbeddingsFake]:
    """A provider without history or faults."""
    running.reset()
    yield running
    running.holds.release()
    running.reset()
    running.delay = 0


def post(client: httpx.Client, url: str) -> Vectors:
    """One request, with its failures mapped like LiteLLM's."""
    body = {"model": "m", "input": ["a text"]}
    answer = client.post(f"{url}/embeddings", json=body, headers={"Authorization": "Bearer k"})
    if answer.status_code == httpx.codes.OK:
        return np.ones((1, 1), dtype=np.float32)
    told = answer.headers.get("Retry-After")
    raise EmbeddingUnavailable("no", provider_status=answer.status_code, retry_after=float(told) if told else None)


def work(redis_url: str, name: str, rate: Rate, url: str, requests: int, project: str) -> None:
    """One process of the fleet. It gets this many answers, with unlimited patience."""
    budget = RateBudget("m", name, rate, redis_url=redis_url, concurrency=1)
    send = partial(post, httpx.Client(trust_env=False), url)
    answered = 0
    while answered < requests:
        # the next call waits after a failure
        with suppress(EmbeddingUnavailable):
            budget.call(send, project=project, tokens=1, patience=60)
            answered += 1


def fleet(
    redis_url: str, provider: EmbeddingsFake, rate: Rate, requests: Sequence[int]
) -> list[multiprocessing.Process]:
    """Run the processes of one fleet, each of which gets this many answers."""
    name = uuid4().hex
    spawn = multiprocessing.get_context("spawn")
    started = [
        spawn.Process(target=work, args=(redis_url, name, rate, provider.url, wanted, f"project-{number}"))
        for number, wanted in enumerate(requests)
    ]
    for one in started:
        one.start()
    return started  # type: ignore[return-value] # its base class differs by the way of starting, which is no matter here


def wait_for(processes: list[multiprocessing.Process]) -> None:
    for one in processes:
        one.join(60)
    codes = [one.exitcode for one in processes]
    for one in processes:
        one.kill()
        one.join()
    assert codes == [0] * len(processes)


def in_order(provider: EmbeddingsFake) -> list[Request]:
    return sorted(provider.audit.requests, key=lambda request: request.at)


def test_two_processes_keep_to_one_budget(redis_url: str, provider: EmbeddingsFake) -> None:
    wait_for(fleet(redis_url, provider, Rate(6, None, 2), [11, 11]))
    times = [request.at for request in in_order(provider)]
    assert len(times) == 22
    for first in range(0, len(times), 6):
        within = [at for at in times if times[first] <= at < times[first] + 6 - LATE]
        assert len(within) <= 3 * 6, "three windows hold three budgets"


def test_retry_after_is_obeyed_by_all_processes(redis_url: str, provider: EmbeddingsFake) -> None:
    provider.delay = 0.05
    started = fleet(redis_url, provider, Rate(None, None, 10), [80, 80])
    eventually(lambda: len({request.at for request in provider.audit.requests}) > 30, 30)
    provider.fail_next(429, retry_after=3)
    wait_for(started)
    (refused,) = [request for request in provider.audit.requests if request.status == 429]
    early = [r for r in provider.audit.requests if refused.ended + LATE < r.at < refused.ended + 3 - 0.01]
    assert early == []
    assert len([r for r in provider.audit.requests if r.at > refused.ended + 3]) > 50


def test_a_storm_of_errors_is_met_by_few_requests(redis_url: str, provider: EmbeddingsFake) -> None:
    provider.fail_next(500, count=1000)
    started = fleet(redis_url, provider, Rate(None, None, 10), [5, 5])
    eventually(lambda: len(provider.audit.requests) >= 8, 30)
    eventually(lambda: provider.audit.in_flight == 0, 5)
    stormy = [request.at for request in in_order(provider)]
    # 5 in a row from both, then one after 1, 2, 4 … s
    assert stormy[-1] - stormy[0] > 1
    provider.clear_failures()
    wait_for(started)
    assert len(provider.audit.requests) <= 8 + 2 + 10


@pytest.fixture(scope="module")
def service_(new_service: NewService, root: Path, running: EmbeddingsFake) -> Iterator[Service]:
    """A service with one worker, whose batches have two texts."""
    env = {**running.env, "EMBEDDING_BATCH_SIZE": "2", "EMBEDDING_RPM": "600", "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(with_one_worker, **env) as started:
        yield started


@pytest.fixture
def here(service_: Service, provider: EmbeddingsFake) -> Iterator[Service]:
    """The service, and a fleet whose circuit is closed."""
    yield service_
    with Redis.from_url(service_.env["REDIS_URL"]) as redis:
        redis.delete(*redis.keys("foldex:{*"), "nothing")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)
    return folder


def test_what_a_task_waits_for_is_said_until_it_goes_on(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    folder = write(root / "busy", **{f"f{number}": f"Text number {number}." for number in range(6)})
    tool = here.local_tool(write(root / "first", a="One."))
    here.wait(tool)
    # the first query imports what it needs, which may take longer than the provider stays down
    assert here.query(tool, "one", mode="vector")
    provider.fail_next(429, retry_after=15)
    tool = here.local_tool(folder)
    eventually(lambda: here.status(tool)["warning"] is not None, 30, here.logs)
    assert "429" in here.status(tool)["warning"]
    # what is indexed by now, or else what a grep of the files finds
    assert here.query(tool, "text", mode="keyword"), "words need no provider"

    def is_said() -> bool:
        answer = here.client.post(f"/api/tools/search/{tool}/query", json={"query": "text", "mode": "vector"})
        said = answer.json()
        if answer.status_code != 200:
            return (answer.status_code, said["code"]) == (503, "embedding_unavailable")
        # words answer as long as no chunk has its vector; a slow machine may ask after the wait
        codes = [note["code"] for note in said["notes"]]
        return "meaning_follows" in codes or said["coverage"]["vector_share"] == 1

    # counts may be a moment old
    eventually(is_said, 10, here.logs)
    status = here.wait(tool)
    assert (status["indexed_files"], status["warning"], status["error"]) == (6, None, None)
    assert {file["attempts"] for file in here.files(tool)} == {1}


def test_words_are_found_while_the_provider_is_silent(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    hold = provider.holds.add("embeddings", "quiet")
    folder = write(root / "silent", **{f"f{number}": f"A quiet text of number {number}." for number in range(6)})
    (folder / "code.py").write_text("def quiet_function():\n    return 1\n")
    # no worker has measured how fast vectors of this length come
    tool = here.local_tool(folder, config={"dimensions": 56})
    eventually(lambda: len(here.query(tool, "quiet", mode="keyword")) == 7, 30, here.logs)
    # files that are not listed yet are searched line by line
    eventually(lambda: [file["chunks"] for file in here.files(tool)] == [1] * 7, 30, here.logs)
    assert len(here.query(tool, "quiet", mode="keyword")) == 7
    assert {(file["status"], file["stale"], file["embedded"]) for file in here.files(tool)} == {
        ("indexing", False, False)
    }
    assert here.status(tool)["status"] == "indexing"
    eventually(lambda: bool(hold.arrived), 30, here.logs)
    hold.release()
    status = here.wait(tool)
    assert (status["indexed_files"], status["embedded_chunks"]) == (7, 7)
    assert {provider.audit.times(f"A quiet text of number {number}.") for number in range(6)} == {1}


def test_what_costs_nothing_goes_on_without_the_provider(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    folder = write(root / "away", a="The first text.", b="The second text.")
    here.wait(here.local_tool(folder))
    (folder / "a.md").rename(folder / "c.md")
    (folder / "d.md").write_text("A third text.")
    provider.fail_next(503, count=1000)
    tool = here.local_tool(folder)
    eventually(lambda: {f["file_path"] for f in here.files(tool, status="indexed")} == {"b.md", "c.md"}, 30, here.logs)
    assert [file["file_path"] for file in here.files(tool, status="removed")] == ["a.md"]
    assert here.status(tool)["status"] == "indexing"
    provider.clear_failures()
    assert here.wait(tool)["indexed_files"] == 3


def test_a_wrong_key_ends_the_task_at_once(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    here.wait(here.local_tool(write(root / "right", a="Any text.")))
    provider.reset()
    provider.fail_next(401, count=1000)
    files = {f"f{number}": f"Another text of number {number}." for number in range(40)}
    status = here.wait(here.local_tool(write(root / "wrong", **files)), "error")
    assert "EMBEDDING_API_KEY" in status["error"]
    assert len(provider.audit.requests) <= 4


def test_a_model_that_is_gone_ends_the_task_at_once(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    here.wait(here.local_tool(write(root / "known", a="Some text.")))
    provider.fail_next(404, count=1000)
    status = here.wait(here.local_tool(write(root / "unknown", a="Some other text.")), "error")
    assert "404" in status["error"]


def test_a_refused_text_fails_its_own_file(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    tool = here.local_tool(write(root / "refused", good="A good text.", bad="REFUSE-ME", fine="A fine text."))
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (2, 1)
    (bad,) = here.files(tool, status="failed")
    assert (bad["file_path"], bad["reason"]) == ("bad.md", "embedding_refused")


def test_a_text_that_makes_the_server_fail_fails_its_own_file(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    tool = here.local_tool(write(root / "faulty", good="A right text.", bad="FAULT-ME", fine="Another right text."))
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (2, 1)
    (bad,) = here.files(tool, status="failed")
    assert (bad["file_path"], bad["reason"]) == ("bad.md", "embedding_refused")
    assert "500" in bad["message"]


def test_a_text_at_which_the_server_closes_the_connection_fails_its_own_file(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    tool = here.local_tool(write(root / "dropped", good="A light text.", bad="DROP-ME", fine="Another light text."))
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (2, 1)
    (bad,) = here.files(tool, status="failed")
    assert (bad["file_path"], bad["reason"]) == ("bad.md", "embedding_refused")
    assert "does not answer this one" in bad["message"]


def test_a_server_that_closes_every_connection_fails_no_file(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    provider.fail_next(0, count=1000)
    tool = here.local_tool(write(root / "hung-up", a="A text that waits.", b="Another text that waits."))
    eventually(lambda: len(provider.audit.requests) > DROPS_TO_REFUSE, 60, here.logs)
    provider.clear_failures()
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (2, 0)


def told(here: Service) -> dict[str, Any]:
    """The budget of the default model, as the API tells it."""
    return dict(next(each for each in here.get("/api/models")["items"] if each["default"])["budget"])


def test_what_workers_spend_and_wait_for_is_told(here: Service, provider: EmbeddingsFake, root: Path) -> None:
    provider.delay = 0.05
    tool = here.local_tool(
        write(root / "spending", **{f"f{number}": f"Number {number} is spent." for number in range(20)})
    )
    eventually(lambda: told(here)["requests_left"] < 100, 30, here.logs)
    assert told(here)["requests_per_minute"] == 600
    here.wait(tool)
    provider.fail_next(429, retry_after=60)
    here.local_tool(write(root / "blocked", a="This one waits."))
    eventually(lambda: told(here)["blocked_until"] is not None, 30, here.logs)
    assert "429" in told(here)["reason"]
