"""Measures what a stack uses that does nothing: processor time, memory with shared pages counted once, and messages."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import psutil
from redis import Redis

from api.stack import processes, programs
from api.stack.processes import server_port
from tests.bench.processor import name_of
from tests.bench.running import running
from tests.service import Service

#: Seconds that are measured, and seconds for what the start left to do.
SECONDS, SETTLING = 60, 20


def run(place: Path) -> None:
    folder = place / "folders" / "one"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("# One\n\ntext")
    with running(place, place / "folders") as service, ExitStack() as others:
        others.enter_context(processes.running(programs.flower(server_port(), service.env), service.home))
        others.enter_context(processes.running(programs.watch(service.env), service.home))
        _measure(service, "no tool")
        service.wait(service.local_tool(folder))
        _measure(service, "one tool")
        service.wait(service.local_tool(folder, config={"watch": True}))
        _measure(service, "and one that watches")


def _measure(service: Service, title: str) -> None:
    time.sleep(SETTLING)
    with Redis.from_url(service.env["CELERY_BROKER_URL"]) as broker:
        before, calls = _processor_seconds(), _pushed(broker)
        time.sleep(SECONDS)
        after, calls = _processor_seconds(), _pushed(broker) - calls
    memory = _megabytes()
    print(f"-- {title}, {SECONDS} s: {calls / SECONDS:.2f} messages a second")
    for name in sorted(after):
        print(
            f"{name:<18} {100 * (after[name] - before.get(name, 0)) / SECONDS:6.2f} % of a core {memory[name]:7.0f} MB"
        )
    share = 100 * (sum(after.values()) - sum(before.values())) / SECONDS
    print(f"{'all':<18} {share:6.2f} % of a core {sum(memory.values()):7.0f} MB")


def _pushed(broker: Redis) -> int:
    """Messages and events so far."""
    told = cast("Mapping[str, Mapping[str, int]]", broker.info("commandstats"))
    return sum(told.get(f"cmdstat_{command}", {}).get("calls", 0) for command in ("lpush", "rpush", "publish"))


def _processor_seconds() -> Mapping[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for name, process in _programs():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds[name] += times.user + times.system
    return seconds


def _megabytes() -> Mapping[str, float]:
    megabytes: dict[str, float] = defaultdict(float)
    for name, process in _programs():
        with suppress(psutil.NoSuchProcess):
            megabytes[name] += process.memory_full_info().pss / 1e6
    return megabytes


def _programs() -> list[tuple[str, psutil.Process]]:
    """Each process of the stack, and the program that it belongs to."""
    programs_ = psutil.Process().children()
    found = [(name_of(one), each) for one in programs_ for each in (one, *one.children(recursive=True))]
    return [(name, process) for name, process in found if name != "provider's fake"]
