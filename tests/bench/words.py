"""When files are found by their words with the local model, and what searches take while their vectors follow."""

from __future__ import annotations

import statistics
import time
from itertools import count
from pathlib import Path

from tests.bench.folder import corpus, print_processor
from tests.bench.processor import processor_seconds
from tests.bench.running import running
from tests.service import TOOLS, Service
from worker.settings import LOCAL_MODEL

#: Seconds until the API has read the words into memory, or a cancelled run has ended.
REST_SECONDS = 15
#: Queries of each measurement.
QUERIES = 200
_numbers = count()


def run(place: Path) -> None:
    """Index the folder until its words are there, search it for a while, cancel the run, and search it again."""
    folder = place / "corpus"
    size = corpus(folder)
    with running(place, folder, DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL) as service:
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
        time.sleep(REST_SECONDS)
        _ask(service, tool, "while vectors follow")
        service.client.post(f"{TOOLS}/{tool}/cancel")
        time.sleep(REST_SECONDS)
        _ask(service, tool, "at rest")


def _search(service: Service, tool: str) -> bool:
    """Search for a new text. Returns whether it has hits."""
    asked = {"query": f"parse argument number {next(_numbers)} of a command", "mode": "keyword"}
    return bool(service.post(f"{TOOLS}/{tool}/query", asked, 200)["results"])


def _ask(service: Service, tool: str, when: str) -> None:
    waits = []
    for _ in range(QUERIES):
        began = time.monotonic()
        _search(service, tool)
        waits.append((time.monotonic() - began) * 1000)
    waits.sort()
    p50, p99 = statistics.median(waits), waits[int(len(waits) * 0.99)]
    print(f"a search by words {when}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
