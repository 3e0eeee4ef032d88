"""Processor time by process: unlike seconds on the clock, it hardly depends on what else the machine does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import psutil

#: What names a child of this process, by a part of its command line; the first that matches counts.
NAMES = {
    "worker.parse.sandbox": "parser's helper",
    "tests.fakes": "provider's fake",
    "api.stack.fork_server": "fork server",
    "fast@": "worker-fast",
    "bulk@": "worker-bulk",
    "worker.upkeep.clock": "beat",
    "flower": "flower",
    " watch ": "watch",
    "api": "api",
    "postgres": "postgres",
    "redis": "redis",
}


def processor_seconds() -> Mapping[str, float]:
    """Processor seconds so far of all processes that this one started, with those that have ended."""
    seconds: dict[str, float] = defaultdict(float)
    for started in psutil.Process().children():
        of_program = name_of(started)
        for process in [started, *started.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                name = "parser's helper" if name_of(process) == "parser's helper" else of_program
                seconds[name] += times.user + times.system + times.children_user + times.children_system
    return seconds


def name_of(process: psutil.Process) -> str:
    """What a process is for, as the table shows it."""
    if "api.stack.fork_server" in process.cmdline() and process.name() in NAMES.values():
        return process.name()
    command = f"{' '.join(process.cmdline())} "
    return next((name for part, name in NAMES.items() if part in command), process.name())
