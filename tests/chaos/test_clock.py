"""Wrong clocks: the times that matter are those of Postgres, or of a monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from api.stack.processes import running
from tests.chaos.cluster import BULK, WORKERS, Cluster, second_worker
from tests.chaos.proof import Case, Result, prove
from tests.service import eventually

NewCase = Callable[..., Case]

CLOCK = str(Path(__file__).with_name("clock"))
#: In seconds.
JUMP = str(5 * 3600)
#: One more than the honest processes and one process of the fast jumper can hold, so that the bulk jumper holds one.
CASES = 1 + BULK + 1 + 1


def test_a_clock_that_jumps_hurts_nothing(here: Cluster, new_case: NewCase, calm: Result) -> None:
    fast, bulk = (second_worker(here, queue, "jumps", PYTHONPATH=CLOCK, JUMP=JUMP) for queue in ("fast", "bulk"))
    cases = [new_case("clock") for _ in range(CASES)]
    holds = [here.embeddings.holds.add("embeddings", made.mark) for made in cases]
    with running(fast, here.home), running(bulk, here.home):
        for made in cases:
            made.start()
        for hold in holds:
            eventually(lambda hold=hold: bool(hold.arrived), 40, here.logs)  # type: ignore[misc] # mypy infers no default's type
        assert bulk.name in {here.holder(hold.arrived[0], *WORKERS, fast.name, bulk.name) for hold in holds}
        here.kill(bulk.name)
        for hold in holds:
            hold.release()
        for made in cases:
            prove(made, calm)
