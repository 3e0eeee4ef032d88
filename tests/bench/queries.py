"""Measures queries to one API process: its own work for each, and the rate for eight concurrent callers."""

from __future__ import annotations

import http.client
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import orjson
import psutil

from api.stack.processes import server_port, wait_until
from api.stack.programs import answers
from api.stack.record import ROOT
from tests.bench.running import running
from tests.service import TOOLS, Service

CALLERS, SECONDS, ALONE = 8, 6.0, 300
FOLDERS = ("api", "worker", "schemas")
WORDS = [
    *("lease", "epoch", "tombstone", "namespace", "vector", "chunk", "stamp", "folder"),
    *("parse", "embed", "budget", "sweep", "reindex", "cursor", "page"),
]

#: External work that a query waits for. With LanceDB, the store also does the keyword search.
OUTSIDE = ("provider", "store", "keywords")

_numbers = count()


def run(place: Path) -> None:
    for store in ("lancedb", "turbopuffer"):
        folder = place / store / "folder"
        for name in FOLDERS:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        _measure(place / store, folder, store)


def _measure(place: Path, folder: Path, store: str) -> None:
    with turbopuffer() as url:
        given = {"VECTOR_STORE": store, "TURBOPUFFER_API_KEY": "tpuf_fake", "TURBOPUFFER_BASE_URL": url}
        with running(place, folder, 2, 0, **given) as service, timed_api(service) as (port, process):
            tool = service.local_tool(folder)
            status = service.wait(tool, seconds=300)
            print(f"{store}: {status['total_files']} files, {status['total_chunks']} chunks, hybrid, 10 hits")
            for known in (False, True):
                _alone(port, tool, known)
                _together(port, tool, known, process)


def _alone(port: int, tool: str, known: bool) -> None:
    """One caller: the time of each step of a query."""
    caller = Caller(port, tool)
    for _ in range(30):
        caller.ask(known)
    asked = [caller.ask(known) for _ in range(ALONE)]
    own = [2 * times["total"] - sum(times.values()) for times in asked]
    parts = ", ".join(
        f"{name} p50 {statistics.median(times):.1f} p99 {statistics.quantiles(times, n=100)[98]:.1f}"
        for name, times in (("own work", own), *((name, [times[name] for times in asked]) for name in OUTSIDE))
    )
    print(f"  {_said(known)}: ms: {parts}")


def _together(port: int, tool: str, known: bool, process: psutil.Process) -> None:
    """Eight callers. The processor time of the process shows what an idle machine could serve."""
    before, started = process.cpu_times(), time.monotonic()
    deadline = started + SECONDS
    with ThreadPoolExecutor(CALLERS) as pool:
        asked = sum(pool.map(lambda _: _until(deadline, Caller(port, tool), known), range(CALLERS)))
    seconds, after = time.monotonic() - started, process.cpu_times()
    spent = (after.user + after.system - before.user - before.system) * 1000 / asked
    print(
        f"  {_said(known)}: {CALLERS} callers: {asked / seconds:.0f} queries/s, {spent:.1f} ms of processor time each"
    )


def _until(deadline: float, caller: Caller, known: bool) -> int:
    asked = 0
    while time.monotonic() < deadline:
        caller.ask(known)
        asked += 1
    return asked


def _said(known: bool) -> str:
    return "known texts" if known else "texts never asked before"


class Caller:
    """One persistent connection. It is as light as possible, because it competes with the measured process."""

    def __init__(self, port: int, tool: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._path = f"{TOOLS}/{tool}/query"

    def ask(self, known: bool) -> dict[str, float]:
        """Milliseconds of one query: total and outside the API."""
        number = next(_numbers)
        text = " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 2, 7))
        body = orjson.dumps({"query": text if known else f"{text} {number}"})
        self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != http.client.OK or not orjson.loads(content)["results"]:
            raise SystemExit(content.decode())
        return {name: float(answer.headers.get(f"x-{name}", "0")) for name in ("total", *OUTSIDE)}


@contextmanager
def timed_api(service: Service) -> Iterator[tuple[int, psutil.Process]]:
    """Start another API process over the service's rows that reports its times. Yields its port and the process."""
    port = server_port()
    env = {**os.environ, **service.env, "LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}
    with _process("tests.bench.timed_api", str(port), env=env) as process:
        if not wait_until(lambda: answers("127.0.0.1", port, "/healthz"), 30):
            raise SystemExit("the API does not start")
        yield port, psutil.Process(process.pid)


@contextmanager
def turbopuffer() -> Iterator[str]:
    """Start the fake store. Yields its address."""
    port = server_port()
    with _process("tests.fakes.turbopuffer", "--port", str(port), env={**os.environ, "OMP_NUM_THREADS": "1"}):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _process(module: str, *arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, env=env) as process:
        try:
            yield process
        finally:
            process.terminate()
