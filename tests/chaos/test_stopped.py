"""Processes that are stopped inside a transaction for longer than a lease: nothing waits until they resume."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from tests.chaos.cluster import BULK, FAST, Cluster, Unavailable
from tests.chaos.proof import Case, Result, case, prove
from tests.chaos.test_boundaries import GATES, Border, meet, prepare
from tests.chaos.test_messages import in_hand
from tests.service import eventually
from worker.state.connections import Application
from worker.state.index.tasks import LEASE

NewCase = Callable[..., Case]

#: Gates whose processes are stopped together. The remaining processes of both queues continue the work.
WAVES = (("plan-page", "claim", "finish", "close"), ("plan-end", "plan-done", "chunk-rows"))
#: Connections per worker process (work, its lease, the sweep, its lock), and per API.
EACH, API = 5, 20
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = ANY (%s) AND datname = current_database()"


#: Seconds in which a sleeper loses its locks, and another session gets them.
LOCKED_SECONDS = 15.0


@dataclass
class Sleepers:
    """A wave's cases, and the processes that are stopped in their transactions."""

    here: Cluster
    cases: dict[str, Case]
    pids: set[int] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)

    def stop(self, border: Border, pids: set[int]) -> None:
        """Stop the processes at a gate, then open it: the server's part of the work is done, the client's is not."""
        for pid in pids:
            os.kill(pid, SIGSTOP)
        self.pids |= pids
        border.release()

    def wake(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGCONT)

    def backends(self) -> int:
        ((number,),) = self.here.rows(BACKENDS, [Application.API, Application.WORKER])
        return int(number)


@pytest.fixture(params=WAVES, ids=lambda wave: wave[-1])
def sleepers(request: pytest.FixtureRequest, here: Cluster, root: Path, calm: Result) -> Iterator[Sleepers]:
    borders = prepare(here, root, request.param)
    made = Sleepers(here, {border.point: border.case for border in borders})
    try:
        meet(borders, made.stop)
        made.since = time.monotonic()
        yield made
    finally:
        made.wake()


def began(made: Case) -> bool:
    """Create its tool, unless a lock prevents that."""
    try:
        made.start()
    except Unavailable as error:
        if '"locked"' not in str(error):
            raise
        return False
    return True


def test_every_gate_is_in_a_wave() -> None:
    assert sorted(point for wave in WAVES for point in wave) == sorted(GATES)


def test_nobody_waits_for_processes_that_are_stopped(sleepers: Sleepers, root: Path, calm: Result) -> None:
    here = sleepers.here
    # Requests of the same project get its lock as soon as the server takes it from the sleeper.
    beside = case(here, root, "beside")
    beside.project = sleepers.cases[next(reversed(sleepers.cases))].project
    eventually(lambda: began(beside), LOCKED_SECONDS, here.logs)
    other = case(here, root, "other")
    other.start()
    prove(other, calm, in_vain=0)
    assert sleepers.backends() <= (FAST + BULK) * EACH + 2 * API
    # Other processes do the work of the stopped ones.
    for made in sleepers.cases.values():
        prove(made, calm)
    prove(beside, calm)
    assert here.client.get("/readyz").status_code == HTTPStatus.OK
    time.sleep(max(0.0, sleepers.since + 1.5 * LEASE.total_seconds() - time.monotonic()))
    tasks = [here.task(made.tool)[0] for made in sleepers.cases.values()]
    sleepers.wake()
    for task in tasks:
        eventually(lambda task=task: not in_hand(here, task), 30, here.logs)  # type: ignore[misc] # mypy infers no default's type
    for made in sleepers.cases.values():
        prove(made, calm)


def test_cancel_and_delete_get_their_answer_while_a_listing_sleeps(here: Cluster, root: Path) -> None:
    borders = prepare(here, root, ("plan-page",))
    made = Sleepers(here, {border.point: border.case for border in borders})
    try:
        meet(borders, made.stop)
        listed = made.cases["plan-page"]
        started = time.monotonic()
        assert here.ask(listed.tool, "cancel")["status"] == "cancelled"
        here.delete(listed.tool)
        assert time.monotonic() - started < LOCKED_SECONDS
    finally:
        made.wake()
