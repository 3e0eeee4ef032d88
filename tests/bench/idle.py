"""Measures what a stack uses that does nothing: processor time, memory with shared pages counted once, and messages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import httpx
import psutil
from redis import Redis

from api.stack import record
from api.stack.processes import server_port
from tests.bench.processor import name_of
from tests.bench.running import provider, settings
from tests.service import Service, clean_environment

#: Seconds that are measured, and seconds for what the start left to do.
SECONDS, SETTLING = 60, 20


def run(place: Path) -> None:
    folder = place / "folders" / "one"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("# One\n\ntext")
    with provider() as base, _stack(place / "home", place / "folders", base) as (service, stack):
        _measure(service, stack, "no tool")
        service.wait(service.local_tool(folder))
        _measure(service, stack, "one tool")
        service.wait(service.local_tool(folder, config={"watch": True}))
        _measure(service, stack, "and one that watches")


@contextmanager
def _stack(home: Path, roots: Path, base: str) -> Iterator[tuple[Service, psutil.Process]]:
    """Run `foldex up` as a user does. Yields the service and the process of the command."""
    clean_environment()
    ports = {"API_PORT": str(server_port()), "FLOWER_PORT": str(server_port())}
    given = {"FOLDEX_HOME": str(home), **settings(base, roots), **ports}
    command = [sys.executable, "-m", "foldex", "up"]
    with subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stdout or ())
            if not any(line.startswith("Foldex ") for line in lines):
                raise SystemExit("the stack does not start")
            env = record.environment(home)
            with httpx.Client(base_url=record.url_of(env), timeout=30, trust_env=False) as client:
                yield Service(home, env, client), psutil.Process(process.pid)
        finally:
            process.terminate()


def _measure(service: Service, stack: psutil.Process, title: str) -> None:
    time.sleep(SETTLING)
    with Redis.from_url(service.env["CELERY_BROKER_URL"]) as broker:
        before, calls = _processor_seconds(stack), _pushed(broker)
        time.sleep(SECONDS)
        after, calls = _processor_seconds(stack), _pushed(broker) - calls
    memory = _megabytes(stack)
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


def _processor_seconds(stack: psutil.Process) -> Mapping[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for name, process in _programs(stack):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds[name] += times.user + times.system
    return seconds


def _megabytes(stack: psutil.Process) -> Mapping[str, float]:
    megabytes: dict[str, float] = defaultdict(float)
    for name, process in _programs(stack):
        with suppress(psutil.NoSuchProcess):
            megabytes[name] += process.memory_full_info().pss / 1e6
    return megabytes


def _programs(stack: psutil.Process) -> list[tuple[str, psutil.Process]]:
    """Each process of the stack, and the program that it belongs to."""
    of_programs = [(name_of(one), each) for one in stack.children() for each in (one, *one.children(recursive=True))]
    return [("foldex up", stack), *of_programs]
