"""Servers and workers that die, restart or are replaced during the work."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGINT, SIGTERM

import pytest

from api.stack.processes import running
from tests.chaos.cluster import WORKERS, Cluster, client_of, gone, second_worker
from tests.chaos.full import only_in_full
from tests.chaos.proof import INDEX, Case, Result, prove
from tests.fakes.hold import Hold
from tests.service import eventually

NewCase = Callable[..., Case]

#: Seconds within which another worker takes over a dead worker's files, and a margin for a busy machine.
DEADLINE, NOISE = 10.0, 5.0
#: SQL for the owners of an index's files.
HELD = f"SELECT DISTINCT lease_owner FROM search_index_file WHERE index_id = {INDEX} AND lease_owner IS NOT NULL"
#: SQL for the number of files not yet taken over from dead owners, and the seconds since a moment.
LEFT = f"""
SELECT count(*), extract(epoch FROM clock_timestamp() - %s)::float FROM search_index_file
WHERE (lease_owner = ANY (%s) OR status = 'pending') AND index_id = {INDEX}
"""


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


@only_in_full  # the next test waits for the same, and says how long it may take
def test_the_work_of_a_dead_worker_goes_on_in_another(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("goes-on")
    hold = here.embeddings.holds.add("embeddings", made.mark)
    made.start()
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    dead = client_of(hold.arrived[0], here.embeddings.url)
    before = len(hold.arrived)
    here.kill(here.holder(hold.arrived[0]))
    eventually(lambda: len(hold.arrived) > before, 40, here.logs)
    assert client_of(hold.arrived[-1], here.embeddings.url) != dead
    hold.release()
    prove(made, calm)


def test_work_goes_on_within_10_s_of_a_worker_s_death(here: Cluster, new_case: NewCase, calm: Result) -> None:
    made = new_case("in-time")
    hold = here.embeddings.holds.add("embeddings", made.mark)
    made.start()
    seconds = seconds_to_go_on(here, made, hold)
    hold.release()
    prove(made, calm)
    assert seconds < DEADLINE + NOISE


def seconds_to_go_on(here: Cluster, made: Case, hold: Hold) -> float:
    """Kill the worker that waits for a held answer. Returns Postgres' seconds until others own its files."""
    eventually(lambda: bool(hold.arrived), 20, here.logs)
    # A death during parsing would make the files suspects, which are claimed one by one.
    eventually(lambda: not here.rows(f"{HELD} AND parsing > 0", made.tool), 20, here.logs)
    dead = [owner for (owner,) in here.rows(HELD, made.tool)]
    ((died,),) = here.rows("SELECT clock_timestamp()")
    here.kill(here.holder(hold.arrived[0]))
    seconds: list[float] = []

    def gone_on() -> bool:
        ((left, since),) = here.rows(LEFT, died, dead, made.tool)
        seconds[:] = [since]
        return not left

    eventually(gone_on, 40, here.logs)
    return seconds[0]


def test_a_rollout_under_load_loses_nothing_and_pays_nothing_twice(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    rollout(here, new_case, calm)


def rollout(here: Cluster, new_case: NewCase, calm: Result) -> None:
    """End the workers, one of which has a successor, while they work."""
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
    ends = [line for line in here.said[said:] if "exited with" in line]
    assert len(ends) == len(WORKERS)
    assert all("exited with 0" in line for line in ends), ends
