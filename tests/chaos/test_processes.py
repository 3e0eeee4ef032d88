"""Servers and workers that die, restart or are replaced in the middle of the work."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGINT, SIGTERM

import pytest

from api.stack.processes import running
from tests.chaos.cluster import WORKERS, Cluster, client_of, gone, second_worker
from tests.chaos.proof import Case, Result, prove
from tests.service import eventually

NewCase = Callable[..., Case]


@pytest.mark.parametrize("victim", ["beat", "api", "redis", "postgres"])
def test_a_process_is_killed_mid_run(here: Cluster, new_case: NewCase, calm: Result, victim: str) -> None:
    made = new_case(f"{victim}-killed")
    hold = here.embeddings.holds.add("embeddings", made.mark)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    old = here.kill(victim)
    here.restarted(victim, old)
    hold.release()
    prove(made, calm)


def test_postgres_restarts_while_nothing_runs(here: Cluster, new_case: NewCase, calm: Result) -> None:
    old = here.pid("postgres")
    here.send("postgres", SIGINT)
    here.restarted("postgres", old)
    made = new_case("restarted-idle")
    made.start()
    prove(made, calm, in_vain=0)


def test_the_work_of_a_dead_worker_goes_on_in_another(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("goes-on")
    hold = here.embeddings.holds.add("embeddings", made.mark)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    dead = client_of(hold.arrived[0])
    (name,) = [name for name in WORKERS if dead in here.children(name)]
    before = len(hold.arrived)
    here.kill(name)
    eventually(lambda: len(hold.arrived) > before, 40, here.logs)
    assert client_of(hold.arrived[-1]) != dead
    hold.release()
    prove(made, calm)


def test_a_rollout_under_load_loses_nothing_and_pays_nothing_twice(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    cases = [new_case("rollout") for _ in range(3)]
    here.embeddings.delay = 0.2
    old = {name: here.pid(name) for name in WORKERS}
    with running(second_worker(here, "bulk"), here.home):
        for made in cases:
            made.start()
        eventually(lambda: here.embeddings.audit.in_flight > 0, 20, here.logs)
        said = len(here.said)
        for name in WORKERS:
            here.send(name, SIGTERM)
        for pid in old.values():
            eventually(gone(pid), 75, here.logs)
        for made in cases:
            prove(made, calm, in_vain=0)
    ends = [line for line in here.said[said:] if "ended with" in line]
    assert len(ends) == len(WORKERS)
    assert all("ended with 0" in line for line in ends), ends
