"""How much memory there is: the machine's, or the container's if that is less."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from worker.machine.memory.memory_limit import memory_bytes

MACHINE = psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("limits", "memory"),
    [
        ([], MACHINE),
        (["max\n"], MACHINE),
        (["1073741824\n"], 2**30),
        (["max\n", "1073741824\n"], 2**30),
        # cgroup v1 states a limit of nearly 2**63 where there is none
        ([f"{2**63 - 4096}\n"], MACHINE),
    ],
)
def test_a_container_limits_the_memory(tmp_path: Path, limits: list[str], memory: int) -> None:
    paths = [tmp_path / str(number) for number in range(len(limits))]
    for path, limit in zip(paths, limits, strict=True):
        path.write_text(limit)
    assert memory_bytes((*paths, tmp_path / "missing")) == memory
