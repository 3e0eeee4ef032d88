"""Measures queries from outside, to one API process and to two: rates and times for 1, 8 and 32 clients, by text."""

from __future__ import annotations

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
import psutil

from api.stack.processes import server_port, wait_until
from api.stack.programs import answers
from api.stack.record import ROOT
from tests.bench.query_client import Load, Measured
from tests.bench.running import running
from tests.service import TOOLS, Service
from worker.settings import LOCAL_MODEL

CLIENTS, SECONDS = (1, 8, 32), 6.0
FOLDERS = ("api", "worker", "schemas")
WORDS_OF_A_QUERY = 5
#: Texts that are known: asked before they are measured.
KNOWN = 100
#: Texts that are new: more than a run asks.
NEW = 50_000
#: Queries of one client from whose traces the time of each step is taken.
TRACED = 100

_WORD = re.compile(r"[A-Za-z]{2,}")


def run(place: Path) -> None:
    with _turbopuffer() as url:
        turbopuffer = {"VECTOR_STORE": "turbopuffer", "TURBOPUFFER_API_KEY": "tpuf_fake", "TURBOPUFFER_BASE_URL": url}
        ways: dict[str, dict[str, str]] = {
            "LanceDB, the provider's fake": {},
            "LanceDB, the provider's fake, two processes of the API": {"API_PROCESSES": "2"},
            "LanceDB, the local model": {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL},
            "Turbopuffer's fake, the provider's fake": turbopuffer,
        }
        for number, (name, given) in enumerate(ways.items()):
            folder = place / str(number) / "folder"
            for part in FOLDERS:
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            with running(place / str(number), folder, 2, 0, **given) as service:
                tool = service.local_tool(folder)
                status = service.wait(tool, seconds=900)
                print(f"{name}: {status['total_files']} files, {status['total_chunks']} chunks, hybrid, 10 hits")
                measure(service, tool, _texts(folder))


def measure(service: Service, tool: str, texts: Iterator[str]) -> None:
    """Print what queries of these texts take, which no one has asked yet."""
    new, known = [next(texts) for _ in range(NEW)], [next(texts) for _ in range(KNOWN)]
    asked = iter(new)
    # the first queries import, open the table and read it into memory
    for text in known:
        service.query(tool, text)
    # by many connections, so that every process does
    _load(service, tool, known, max(CLIENTS), repeated=True)
    for kind in ("new", "known"):
        for clients in CLIENTS:
            of_run = known if kind == "known" else [next(asked) for _ in range(NEW // len(CLIENTS) - TRACED)]
            print(f"  {kind} texts, {clients:2} clients: {_load(service, tool, of_run, clients, kind == 'known')}")
        print(f"  {kind} texts, by steps, p50 ms: {_steps(service, tool, known if kind == 'known' else asked)}")


def _load(service: Service, tool: str, texts: Sequence[str], clients: int, repeated: bool) -> str:
    api = psutil.Process(service.processes["api"].child.pid)
    load = Load(int(service.env["API_PORT"]), f"{TOOLS}/{tool}/query", list(texts), clients, SECONDS, repeated)
    before = _processor_seconds(api)
    command = [sys.executable, "-m", "tests.bench.query_client"]
    answer = subprocess.run(command, input=orjson.dumps([*load]), capture_output=True, check=True, cwd=ROOT)
    after, measured = _processor_seconds(api), Measured(*orjson.loads(answer.stdout))
    took = measured.milliseconds
    processor = 1000 * (after - before) / len(took)
    percentiles = statistics.quantiles(took, n=100)
    return (
        f"{len(took) / measured.seconds:.0f} queries/s, p50 {percentiles[49]:.1f} ms, p99 {percentiles[98]:.1f} ms, "
        f"{processor:.1f} ms of processor time each"
    )


def _processor_seconds(api: psutil.Process) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in (api, *api.children()))


def _steps(service: Service, tool: str, texts: Sequence[str] | Iterator[str]) -> str:
    took: dict[str, list[float]] = {}
    for _, text in zip(range(TRACED), texts, strict=False):
        answer = service.post(f"{TOOLS}/{tool}/query", {"query": text, "trace": True}, 200)
        for step in answer["trace"]:
            took.setdefault(step["step"], []).append(step["took_ms"])
        took.setdefault("the whole search", []).append(answer["took_ms"])
    return ", ".join(f"{name} {statistics.median(times):.1f}" for name, times in took.items())


def _texts(folder: Path) -> Iterator[str]:
    """Queries of words of the folder, each as frequent as it is there. So common ones are among them."""
    contents = [path.read_text(errors="ignore") for path in sorted(folder.rglob("*")) if path.is_file()]
    words, chance = [word for content in contents for word in _WORD.findall(content)], random.Random(0)
    seen: set[str] = set()
    while True:
        text = " ".join(chance.choices(words, k=WORDS_OF_A_QUERY))
        if text not in seen:
            seen.add(text)
            yield text


@contextmanager
def _turbopuffer() -> Iterator[str]:
    """Start the fake store. Yields its address."""
    port = server_port()
    command = [sys.executable, "-m", "tests.fakes.turbopuffer", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        try:
            if not wait_until(lambda: answers("127.0.0.1", port, "/_audit"), 20):
                raise SystemExit("the fake of Turbopuffer does not start")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
