"""A provider that is overloaded, fails and hangs up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.proof import Case, Result, prove

NewCase = Callable[..., Case]


#: Nine failures one after another block the provider for 34 s in all. Each further one would add up to a minute.
PATIENCE_SECONDS = 120


@pytest.mark.timeout(PATIENCE_SECONDS + 120)
def test_a_storm_of_429_and_5xx_condemns_nobody_and_pays_nothing_twice(
    here: Cluster, new_case: NewCase, calm: Result
) -> None:
    cases = [new_case("storm") for _ in range(3)]
    here.embeddings.fail_next(429, retry_after=1, count=3)
    here.embeddings.fail_next(503, count=2)
    here.embeddings.fail_next(0, count=2)
    here.embeddings.fail_next(500, count=2)
    for made in cases:
        made.start()
    for made in cases:
        prove(made, calm, in_vain=0, seconds=PATIENCE_SECONDS)
