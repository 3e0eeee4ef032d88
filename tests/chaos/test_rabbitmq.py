"""The same with RabbitMQ as broker: it loses and duplicates messages, dies and goes silent, and workers die too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from uuid import UUID

import pytest
from kombu import Connection

from tests import rabbitmq
from tests.chaos.cluster import Cluster, client_of, cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import Case, Result, case, prove
from tests.chaos.test_processes import rollout
from tests.service import eventually

NewCase = Callable[..., Case]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("chaos-rabbitmq")
    # each process opens its own connections and parser: start no more than these tests occupy
    with cluster(home, root, rabbitmq.prepare(home), fast=3, bulk=3) as running:
        yield running


@pytest.fixture(scope="module")
def calm(whole: Cluster, root: Path) -> Result:
    """The result of a run without faults on a folder."""
    made = case(whole, root, "calm")
    whole.wait(made.start())
    return made.result()


def forget(here: Cluster) -> None:
    """Empty the queues."""
    with Connection(here.env["CELERY_BROKER_URL"]) as connection, connection.channel() as channel:
        for queue in ("fast", "bulk"):
            channel.queue_purge(queue)


def test_messages_are_lost_and_doubled(here: Cluster, new_case: NewCase, calm: Result) -> None:
    lost, doubled = new_case("lost"), new_case("doubled")
    hold = here.embeddings.holds.add("embeddings", lost.mark)
    lost.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    forget(here)
    here.embeddings.delay = 0.05
    doubled.start()
    task: UUID = here.task(doubled.tool)[0]
    for queue in ("fast", "bulk"):
        here.publish("foldex.plan", task, queue, 8)
        here.publish("foldex.index", task, queue, 8)
    hold.release()
    for made in (lost, doubled):
        prove(made, calm, in_vain=0)


def test_a_child_and_a_worker_are_killed(here: Cluster, new_case: NewCase, calm: Result) -> None:
    cases = [new_case(name) for name in ("child-killed", "worker-killed")]
    holds = [here.embeddings.holds.add("embeddings", made.mark) for made in cases]
    for made in cases:
        made.start()
    for hold in holds:
        eventually(lambda hold=hold: bool(hold.arrived), 20, here.logs)  # type: ignore[misc] # mypy infers no default's type
    here.kill_child(client_of(holds[0].arrived[0], here.embeddings.url))
    here.kill(here.holder(holds[1].arrived[0]))
    # Their messages were not acknowledged, so they are delivered again.
    eventually(lambda: all(len(hold.arrived) > 1 for hold in holds), 40, here.logs)
    for made, hold in zip(cases, holds, strict=True):
        hold.release()
        prove(made, calm)


def test_the_broker_is_killed_mid_run(here: Cluster, new_case: NewCase, calm: Result) -> None:
    during, after = new_case("broker-killed"), new_case("broker-back")
    hold = here.embeddings.holds.add("embeddings", during.mark)
    during.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    old = here.kill("rabbitmq")
    after.start()
    here.restarted("rabbitmq", old)
    hold.release()
    for made in (during, after):
        prove(made, calm)


def test_the_broker_falls_silent_mid_run(here: Cluster, new_case: NewCase, calm: Result) -> None:
    during, meanwhile = new_case("broker-silent"), new_case("in-silence")
    hold = here.embeddings.holds.add("embeddings", during.mark)
    during.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    here.send("rabbitmq", SIGSTOP)
    try:
        hold.release()
        meanwhile.start()
        # A slice whose request was answered goes on, even if no message brings the next one.
        eventually(lambda: here.task(during.tool)[4] > 0, 60, here.logs)
    finally:
        here.send("rabbitmq", SIGCONT)
    for made in (during, meanwhile):
        prove(made, calm, in_vain=0)


@only_in_full  # test_processes has a rollout over Redis
def test_a_rollout_under_load_loses_nothing_and_pays_nothing_twice(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    rollout(here, new_case, calm)
