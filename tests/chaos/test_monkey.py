"""Some seconds of the random adversary; `make chaos SECONDS=600 SEED=…` runs longer."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.monkey import WAIT_SECONDS, Monkey

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 12)
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.timeout(SECONDS + 6 * WAIT_SECONDS)
def test_a_monkey_changes_nothing(here: Cluster, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", flush=True)  # noqa: T201 - the seed must always be visible

    Monkey(here, root, SEED, say).run(SECONDS)
