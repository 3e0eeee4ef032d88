"""When files are found by their words with the local model, and what searches take while their vectors follow.

The run is cancelled and continued in turns, so that searches beside it and searches at rest meet the same load.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.bench.folder import corpus, print_processor
from tests.bench.processor import processor_seconds
from tests.bench.running import running
from tests.service import TOOLS, Service, eventually
from worker.settings import LOCAL_MODEL

#: Seconds until the API has read the words into memory, or a cancelled run has ended.
REST_SECONDS = 15
#: Turns of a run that continues and then rests, and queries of each half.
TURNS, QUERIES = 3, 200
#: Seconds for which vectors are counted while nothing is searched.
EMBEDDING_SECONDS = 20
_numbers = count()


def run(place: Path) -> None:
    """Index the folder until its words are there. Search it in turns while vectors follow and at rest."""
    folder = place / "corpus"
    size = corpus(folder)
    with running(place, folder, DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL) as service:
        tool = _indexed(service, folder, size)
        following, resting = list[float](), list[float]()
        for _ in range(TURNS):
            _wait_for_vectors(service, tool)
            time.sleep(REST_SECONDS)
            following += _waits(service, tool)
            service.client.post(f"{TOOLS}/{tool}/cancel")
            time.sleep(REST_SECONDS)
            resting += _waits(service, tool)
            service.client.post(f"{TOOLS}/{tool}/retry")
        _print(following, resting)
        _wait_for_vectors(service, tool)
        _count_vectors(service, tool)


def _indexed(service: Service, folder: Path, size: int) -> str:
    """Index the folder until its words are there. Returns the tool."""
    before, began = processor_seconds(), time.monotonic()
    tool = service.local_tool(folder)
    first = None
    while not (status := service.status(tool))["searchable_at"]:
        if first is None and _search(service, tool):
            first = time.monotonic() - began
        time.sleep(0.2)
    seconds, chunks = time.monotonic() - began, int(str(status["total_chunks"]))
    spent = {name: total - before.get(name, 0) for name, total in processor_seconds().items()}
    print(f"{size / 1e6:.1f} MB: first hit after {first or seconds:.1f} s, words of {chunks} in {seconds:.1f} s")
    print_processor(spent, chunks)
    return tool


def _vectors(service: Service, tool: str) -> int:
    return int(str(service.status(tool)["vector_chunks"]))


def _wait_for_vectors(service: Service, tool: str) -> None:
    before = _vectors(service, tool)
    eventually(lambda: _vectors(service, tool) > before, 60, service.logs)


def _count_vectors(service: Service, tool: str) -> None:
    before, had, began = processor_seconds(), _vectors(service, tool), time.monotonic()
    time.sleep(EMBEDDING_SECONDS)
    number, seconds = _vectors(service, tool) - had, time.monotonic() - began
    spent = {name: total - before.get(name, 0) for name, total in processor_seconds().items()}
    print(f"vectors of {number} chunks in {seconds:.1f} s, {number / seconds:.0f} a second")
    print_processor(spent, max(1, number))


def _search(service: Service, tool: str) -> bool:
    """Search for a new text. Returns whether it has hits."""
    asked = {"query": f"parse argument number {next(_numbers)} of a command", "mode": "keyword"}
    return bool(service.post(f"{TOOLS}/{tool}/query", asked, 200)["results"])


def _waits(service: Service, tool: str) -> list[float]:
    """Return the milliseconds of each of some searches."""
    waits = []
    for _ in range(QUERIES):
        began = time.monotonic()
        _search(service, tool)
        waits.append((time.monotonic() - began) * 1000)
    return waits


def _print(following: Sequence[float], resting: Sequence[float]) -> None:
    p50, p99 = (
        [statistics.quantiles(waits, n=100, method="inclusive")[percent - 1] for waits in (following, resting)]
        for percent in (50, 99)
    )
    shown = f"p50 {p50[0]:.1f} and {p50[1]:.1f} ms, p99 {p99[0]:.1f} and {p99[1]:.1f} ms"
    print(f"a search by words while vectors follow, and at rest: {shown}; p99 {p99[0] / p99[1]:.1f} times")
