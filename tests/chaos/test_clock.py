"""Wrong clocks: the times that matter are those of Postgres, or of a monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from api.stack.processes import running
from tests.chaos import corpus
from tests.chaos.cluster import BULK, PAID_IN_VAIN, WORKERS, Cluster, client_of, second_worker
from tests.chaos.full import only_in_full
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


# each run jumps in both directions
@pytest.mark.parametrize("hour", [3600, pytest.param(-3600, marks=only_in_full)])
def test_the_clock_of_postgres_jumps_under_load_and_back(
    here: Cluster, new_case: NewCase, calm: Result, calm_edited: Result, hour: int
) -> None:
    if here.clock is None:
        pytest.skip("install a C compiler for it")
    edited = new_case("server-clock-edited")
    here.wait(edited.start())
    corpus.edit(edited.folder, edited.mark)
    here.ask(edited.tool, "reindex")
    cases = []
    for number, ahead in enumerate((hour, 0, -hour, 0)):
        made = new_case("server-clock", lance=number == 1)
        cases.append(made)
        hold = here.embeddings.holds.add("embeddings", made.mark)
        made.start()
        eventually(lambda hold=hold: bool(hold.arrived), 40, here.logs)  # type: ignore[misc] # mypy infers no default's type
        here.clock.set_ahead(ahead)
        # Its lease was written by the other clock.
        here.kill_child(client_of(hold.arrived[0], here.embeddings.url))
        hold.release()
    for made, expected in [(edited, calm_edited), *((made, calm) for made in cases)]:
        # After each jump forward, every process loses its leases.
        prove(made, expected, in_vain=3 * PAID_IN_VAIN, seconds=90)
