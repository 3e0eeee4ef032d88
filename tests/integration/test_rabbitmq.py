"""RabbitMQ as the broker: the life of an index, and a node that is down or does not answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest
from kombu import Connection

from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_index_life import LONG_AGO, SECTIONS, write
from tests.rabbitmq import Node, node
from tests.service import TOOLS, NewService, Service, checked, eventually
from worker import app as queue

#: Creations, or messages, during an outage: more than an API has threads.
FLOOD = 100
#: Concurrent requests.
CALLERS = 20
#: Seconds that an API may take for an answer while its broker is silent.
AT_ONCE = 5.0
#: Seconds after which a call counts as hanging. A busy machine may take many times as long as a quiet one.
HANGS_AFTER = 60.0


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running


@pytest.fixture(scope="module")
def running(new_service: NewService, rabbit: Node, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(root), "CELERY_BROKER_URL": rabbit.next_broker()}
    with new_service(**env) as started:
        yield started


@pytest.fixture
def app(rabbit: Node, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let this process send over a virtual host of the node."""
    app = queue.make_app(rabbit.next_broker())
    monkeypatch.setattr(queue, "app", app)
    return app


def send() -> bool:
    return queue.send("foldex.plan", uuid4(), queue=queue.FAST, shown="a test")


def test_an_index_lives_and_dies_over_rabbitmq(running: Service, root: Path) -> None:
    folder = write(root / "life", **SECTIONS)
    tool = running.local_tool(folder)
    assert running.wait(tool, seconds=120)["indexed_files"] == 3
    (folder / "apples.md").write_text("# Zebras\n\nZebras have stripes.\n")
    os.utime(folder / "apples.md", (LONG_AGO, LONG_AGO + 9))
    (folder / "birds.md").unlink()
    running.post(f"{TOOLS}/{tool}/reindex", {})
    assert running.wait(tool)["indexed_files"] == 2
    assert running.query(tool, "stripes", mode="keyword")[0]["file_path"] == "apples.md"
    assert running.query(tool, "birds", mode="keyword") == []
    assert running.client.delete(f"{TOOLS}/{tool}").status_code == 202
    assert running.client.get(f"{TOOLS}/{tool}").status_code == 404


def test_a_task_that_waits_for_its_provider_goes_on(running: Service, root: Path, provider: EmbeddingsFake) -> None:
    provider.fail_next(503, count=5)
    tool = running.local_tool(write(root / "waiting", a="Patience.", b="More patience.", c="Much more patience."))
    eventually(lambda: "Waiting" in (running.status(tool)["warning"] or ""), 40, running.logs)
    assert running.wait(tool, seconds=120)["indexed_files"] == 3


def test_messages_are_counted_and_a_missing_queue_is_empty(app: Any) -> None:
    assert queue.count_queued(queue.FAST) == 0
    assert [send() for _ in range(3)] == [True] * 3
    eventually(lambda: queue.count_queued(queue.FAST) == 3, 10)
    # a worker would hold it, and receive others late
    assert not queue.send("foldex.plan", uuid4(), queue=queue.FAST, shown="a test", countdown=60)
    assert queue.count_queued("no such queue") == 0
    # the query before closed its channel, not the connection that others use
    assert queue.count_queued(queue.FAST) == 3


def in_time(ask: Callable[[], Any]) -> Any:
    """The answer. Fails if there is none: without a limit of its own, a call to a frozen broker waits for ever."""
    answers: list[Any] = []
    thread = Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(HANGS_AFTER)
    assert answers, "it hangs, or failed"
    return answers[0]


def test_a_frozen_broker_keeps_nobody_waiting(app: Any, rabbit: Node) -> None:
    assert send()
    with rabbit.frozen():
        # one open connection, and one that must be opened
        assert in_time(lambda: queue.count_queued(queue.FAST)) == 0
        assert in_time(lambda: [send() for _ in range(FLOOD)]) == [False] * FLOOD
        assert in_time(lambda: queue.count_queued(queue.FAST)) == 0
    eventually(send, 20)
    assert queue.count_queued(queue.FAST) == 2


def test_a_broker_that_was_down_is_asked_again(app: Any, rabbit: Node) -> None:
    assert send()
    rabbit.kill()
    assert in_time(send) is False
    assert in_time(lambda: queue.count_queued(queue.FAST)) == 0
    rabbit.restart()
    # applications of one broker would share a pool of connections
    with Connection(app.conf.broker_url) as other:
        other.Producer().publish({}, exchange=queue.FAST, routing_key=queue.FAST)
    # nothing else here has reopened the connection
    eventually(lambda: queue.count_queued(queue.FAST) > 0, 20)


def test_an_api_whose_broker_is_frozen_answers_at_once(running: Service, rabbit: Node, root: Path) -> None:
    source = {"kind": "local", "path": str(write(root / "frozen", **SECTIONS))}

    def create(number: int) -> str:
        made = client.post(TOOLS, json={"project_id": f"frozen-{number}", "source": source})
        return str(checked(made, 202)["tool_id"])

    address = running.client.base_url
    with (
        httpx.Client(base_url=address, timeout=AT_ONCE, trust_env=False) as client,
        rabbit.frozen(),
        ThreadPoolExecutor(CALLERS) as callers,
    ):
        first, *others = callers.map(create, range(FLOOD))
        assert checked(client.get(f"{TOOLS}/{first}/status"), 200)["status"] == "pending"
        list(callers.map(lambda tool: client.delete(f"{TOOLS}/{tool}").raise_for_status(), others))
    assert running.wait(first)["indexed_files"] == 3


def test_a_task_that_was_made_without_a_broker_runs_when_it_is_back(running: Service, rabbit: Node, root: Path) -> None:
    folder = write(root / "down", **SECTIONS)
    rabbit.kill()
    tool = running.local_tool(folder)
    assert running.status(tool)["status"] == "pending"
    rabbit.restart()
    assert running.wait(tool, seconds=120)["indexed_files"] == 3
