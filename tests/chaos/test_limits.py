"""Full disks, a Postgres without free connections, a Redis without memory: the task waits, then continues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

import psycopg

from api.stack.processes import log_file
from tests.chaos.cluster import WORKERS, Cluster
from tests.chaos.proof import Case, Result, prove
from tests.service import eventually

NewCase = Callable[..., Case]

DISK_FULL = "53100"
#: The log line for a skipped sweep.
NO_SWEEP = 'event="sweep skipped" cause="Postgres does not answer"'


def logged(here: Cluster, text: str) -> int:
    return sum(log_file(here.home, name).read_text(errors="replace").count(text) for name in WORKERS)


def test_a_full_disk_is_waited_out(here: Cluster, new_case: NewCase, calm: Result) -> None:
    points = ("plan-page", "plan-end", "claim", "chunk-rows", "finish", "close")
    cases = {point: new_case(f"full-{point}") for point in points}
    before = logged(here, "Postgres says DiskFull")
    for point, made in cases.items():
        here.gates.fail(point, made.project, DISK_FULL)
        made.start()
    eventually(lambda: logged(here, "Postgres says DiskFull") >= before + len(cases), 30, here.logs)
    assert all(here.task(made.tool)[1] in {"pending", "indexing"} for made in cases.values())
    here.gates.open()
    for made in cases.values():
        prove(made, calm)


def test_a_postgres_without_a_free_connection_is_waited_for(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("connections")
    hold = here.embeddings.holds.add("embeddings", made.mark)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    before = logged(here, NO_SWEEP)
    with ExitStack() as hogs:

        def is_skipped() -> bool:
            # Repeated, because connections that were in use are freed later, and a sweep needs only one.
            with suppress(psycopg.OperationalError):
                for _ in range(200):
                    hogs.enter_context(psycopg.connect(here.env["DATABASE_URL"]))
            return logged(here, NO_SWEEP) > before

        is_skipped()
        hold.release()
        eventually(is_skipped, 30, here.logs)
    prove(made, calm)


def test_a_redis_without_memory_is_waited_for(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("memory")
    with here.broker() as broker:
        broker.config_set("maxmemory", "1")
        made.start()
        assert here.status(made.tool)["status"] == "pending"
        broker.config_set("maxmemory", "0")
    prove(made, calm, in_vain=0)
