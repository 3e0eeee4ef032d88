"""Samples the private memory of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Seconds between two samples.
PAUSE_SECONDS = 0.1


@dataclass
class Peak:
    """The most private memory in any sample, in MiB."""

    mebibytes: int = 0


def private_mebibytes(pid: int) -> int:
    """The memory that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) >> 10


@contextmanager
def sampled(pid: int, pause: float = PAUSE_SECONDS) -> Iterator[Peak]:
    """The peak of a process, which is sampled until the block ends. A sample takes the processor for some 10 ms."""
    peak, over = Peak(private_mebibytes(pid)), threading.Event()

    def sample() -> None:
        # the process may end meanwhile
        with suppress(OSError):
            while not over.wait(pause):
                peak.mebibytes = max(peak.mebibytes, private_mebibytes(pid))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
