"""A disk that fills during a run: callers are told, and the run continues once there is space."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.chaos.cluster import Cluster, cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import Case, case, prove
from tests.service import TOOLS, eventually

#: Takes two minutes and needs a separate cluster.
pytestmark = only_in_full

SIZE = "400m"
NOTES = 400
#: Seconds within which each call is answered while the disk is full, on a busy machine.
ANSWERED = 25
FULL_SECONDS = 15


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk on which the service just fits."""
    place = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"run as root where a small tmpfs may be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="module")
def small(small_disk: Path, root: Path) -> Iterator[Cluster]:
    """A cluster on the small disk."""
    with cluster(small_disk / "home", root) as running:
        yield running


def _fill(ballast: Path) -> None:
    """Use up all free space. Call it again to take space that programs have freed since."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


@pytest.mark.timeout(400)
def test_a_run_on_a_full_disk_goes_on_once_it_has_space(small: Cluster, small_disk: Path, root: Path) -> None:
    first = case(small, root, "roomy", lance=True, notes=NOTES)
    small.wait(first.start(), 120)
    made, ballast = case(small, root, "full", lance=True, notes=NOTES), small_disk / "ballast"
    made.start()
    eventually(lambda: int(small.task(made.tool)[4]) > 0, 60, small.logs)
    try:
        codes = _ask_while_full(small, made, ballast)
    finally:
        os.truncate(ballast, 0)
        ballast.unlink()
    assert codes["create"] == {"disk_full"}
    assert codes["status"] <= {"disk_full", None}
    small.wait_ready()
    prove(made, first.result(), seconds=120, in_vain=10**6)


def _ask_while_full(here: Cluster, made: Case, ballast: Path) -> dict[str, set[str | None]]:
    """Call the API for a while. Returns the codes of its errors; None stands for success."""
    codes: dict[str, set[str | None]] = {"create": set(), "status": set()}
    body = {"project_id": made.project, "source": {"kind": "local", "path": str(made.folder)}}
    deadline = time.monotonic() + FULL_SECONDS
    _fill(ballast)
    while time.monotonic() < deadline:
        _fill(ballast)
        with httpx.Client(base_url=here.lance.base_url, timeout=ANSWERED, trust_env=False) as client:
            answers = {"create": client.post(TOOLS, json=body), "status": client.get(f"{TOOLS}/{made.tool}/status")}
        for name, answer in answers.items():
            assert answer.status_code in {200, 202, 503}, answer.text
            codes[name].add(answer.json().get("code"))
        time.sleep(0.2)
    return codes
