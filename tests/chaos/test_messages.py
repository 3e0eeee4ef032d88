"""Messages that are lost, duplicated, late or forgotten by the broker."""

from __future__ import annotations

import base64
from collections.abc import Callable
from signal import SIGSTOP
from uuid import UUID

import orjson

from tests.chaos.cluster import Cluster
from tests.chaos.proof import Case, Result, prove
from tests.service import eventually

NewCase = Callable[..., Case]


def test_a_message_is_lost_between_the_queue_and_the_worker(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("lost")
    # Redis hands the message to the waiting worker, which is stopped and then killed, so the message is lost.
    here.send("worker-fast", SIGSTOP)
    made.start()
    with here.broker() as broker:
        eventually(lambda: "indexing" not in here.task(made.tool)[1], 5)
        broker.delete("fast")
    old = here.kill("worker-fast")
    here.restarted("worker-fast", old)
    prove(made, calm, in_vain=0)


def test_a_broker_forgets_everything_mid_run(here: Cluster, new_case: NewCase, calm: Result) -> None:
    cases = [new_case("forgotten") for _ in range(3)]
    hold = here.embeddings.holds.add("embeddings", cases[0].mark)
    for made in cases:
        made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    with here.broker() as broker:
        broker.flushall()
    hold.release()
    for made in cases:
        prove(made, calm, in_vain=0)


def test_every_message_comes_many_times_at_once(here: Cluster, new_case: NewCase, calm: Result) -> None:
    cases = [new_case("doubled") for _ in range(2)]
    here.embeddings.delay = 0.05
    for made in cases:
        made.start()
        task: UUID = here.task(made.tool)[0]
        for _ in range(4):
            here.publish("foldex.plan", task, "fast", 4)
            here.publish("foldex.index", task, "fast", 4)
            here.publish("foldex.index", task, "bulk", 4)
            here.publish("foldex.plan", task, "bulk", 4)
    for made in cases:
        prove(made, calm, in_vain=0)
    again = [here.task(made.tool)[0] for made in cases]
    for task in again:
        here.publish("foldex.plan", task, "fast", 2)
        here.publish("foldex.index", task, "bulk", 2)
    eventually(lambda: not any(in_hand(here, task) for task in again), 30, here.logs)
    for made in cases:
        prove(made, calm, in_vain=0)


def in_hand(here: Cluster, task: UUID) -> bool:
    """Whether a message of this task is queued or being handled."""
    with here.broker() as broker:
        taken = [orjson.loads(value)[0] for value in broker.hvals("unacked")]
        queued = [orjson.loads(value) for queue in ("fast", "bulk") for value in broker.lrange(queue, 0, -1)]
    return any(str(task).encode() in base64.b64decode(message["body"]) for message in [*taken, *queued])
