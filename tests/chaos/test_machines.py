"""Three machines in network namespaces, with disks, users, names and clocks of their own: see `tests/chaos/machines`.

They share Postgres, a broker, a bucket and Turbopuffer. Whatever happens to one of them, each index ends as its folder
is.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from api.stack.processes import which
from api.stack.record import ROOT
from tests.chaos.full import only_in_full
from tests.chaos.machines.faults import FAULTS

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
#: Runs a command in namespaces, all of whose processes end with it.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
#: What happens to machines in turn in the long run, and how often.
ROUNDS = 4
#: Seconds of a run after which it counts as hanging.
SHORT_SECONDS, LONG_SECONDS = 400, 3600


@pytest.fixture(scope="module", autouse=True)
def _allowed() -> None:
    """Skip the tests where the system has no namespaces for us, but fail in CI."""
    probe = (*APART, "ip", "link", "add", "probe", "type", "bridge")
    if not which("unshare") or not which("ip") or subprocess.run(probe, capture_output=True, check=False).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("run as root of a Linux with iproute2 for it")


def run(users: int, faults: list[str], seconds: float, *options: str) -> None:
    command = (*APART, sys.executable, "-m", "tests.chaos.machines", "--users", f"{users}", "--seed", f"{SEED}")
    ended = subprocess.run(
        [*command, *options, "--faults", *faults],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-60_000:]
    sys.stdout.write(ended.stdout)


@pytest.mark.timeout(SHORT_SECONDS + 60)
def test_machines_that_die_freeze_lose_power_or_their_network_change_nothing() -> None:
    run(3, ["kill", "freeze", "power", "cut"], SHORT_SECONDS)


@only_in_full
@pytest.mark.timeout(LONG_SECONDS + 60)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_twenty_folders_come_through_all_of_it_again_and_again(broker: str) -> None:
    faults = [*FAULTS] * ROUNDS
    random.Random(SEED).shuffle(faults)
    run(20, faults, LONG_SECONDS, "--large", *(["--rabbitmq"] if broker == "rabbitmq" else []))
