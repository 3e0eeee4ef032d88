"""Continuous use: disk, open files, memory and connections stay bounded. This test causes no faults.

It runs only in `make chaos SECONDS=600`, because a short run says nothing about memory.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.chaos import corpus
from tests.chaos.cluster import WORKERS, Cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import Case, prove_vectors
from tests.service import TOOLS, checked, eventually

pytestmark = only_in_full

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 0)
#: Memory is compared only after this many seconds; until then it grows as caches and processes come into use.
MEMORY_SECONDS = 240
#: The median of the last quarter may exceed that of the second by this factor or this many bytes, whichever is more.
GROWTH, GROWTH_BYTES = 1.2, 48 * 2**20
MAX_FILES = 256
SPARE_DISK = 64 * 2**20

#: SQL for the bytes of live vectors, at four bytes per number, and of their texts.
DATA = """
SELECT coalesce(sum(4 * (i.settings -> 'embedder' ->> 'dimensions')::int + octet_length(c.context || c.chunk_text)), 0)
FROM chunk c JOIN search_index i ON i.id = c.index_id WHERE c.live AND i.vector_store = 'lancedb'
"""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


@dataclass
class Samples:
    """Measurements in order. `memory` is that of the largest process of each kind.

    An idle process grows when it is first used, up to the size of others of its kind.
    """

    files: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def take(self, here: Cluster) -> None:
        largest: dict[str, int] = {}
        for name, process in _processes(here):
            with suppress(psutil.NoSuchProcess):
                self.files.append(process.num_fds())
                largest[name] = max(largest.get(name, 0), process.memory_info().rss)
        for name, size in largest.items():
            self.memory[name].append(size)
        self.connections.append(int(here.rows(CONNECTIONS)[0][0]))


def _processes(here: Cluster) -> Iterator[tuple[str, psutil.Process]]:
    for name in ("api", "api-lance", "beat", "redis"):
        yield name, psutil.Process(here.pid(name))
    for name in WORKERS:
        for pid in [here.pid(name), *here.children(name)]:
            with suppress(psutil.NoSuchProcess):
                yield name, psutil.Process(pid)


def _disk(place: Path) -> int:
    total = 0
    for path in place.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


@pytest.mark.timeout(SECONDS + 300)
def test_disk_files_memory_and_connections_are_bounded(here: Cluster, new_case: Callable[..., Case]) -> None:
    cases = [new_case(f"soak-{number}", lance=True) for number in range(3)]
    for case in cases:
        here.wait(case.start())
    samples, began, turn = Samples(), time.monotonic(), 0
    pause = max(1.0, SECONDS / 120)
    while time.monotonic() - began < SECONDS:
        turn += 1
        _use(here, cases[turn % len(cases)], turn)
        if turn % 3 == 0:
            _make_and_delete(here, new_case)
        if time.monotonic() - began > len(samples.connections) * pause:
            samples.take(here)
    for case in cases:
        here.wait(case.tool)
        prove_vectors(here, case.tool, lance=True)
    _judge(here, samples)


def _use(here: Cluster, case: Case, turn: int) -> None:
    """Edit a file, index it again, and search for it."""
    name = f"{turn % corpus.NOTES:02}"
    word = f"turn{turn}x"
    corpus.write(case.folder / f"note-{name}.md", corpus.note(case.mark, name, (word, "birds", "cars")))
    here.ask(case.tool, "reindex")
    here.wait(case.tool)
    for mode in ("hybrid", "keyword", "vector"):
        body = {"query": word, "mode": mode}
        answer = checked(here.lance.post(f"{TOOLS}/{case.tool}/query", json=body), 200)
        if mode == "keyword":
            assert word in answer["results"][0]["chunk_text"]


def _make_and_delete(here: Cluster, new_case: Callable[..., Case]) -> None:
    made = new_case("soak-brief", lance=True, notes=3)
    here.wait(made.start())
    checked(here.lance.post(f"{TOOLS}/{made.tool}/query", json={"query": "apples"}), 200)
    here.delete(made.tool)


def _judge(here: Cluster, samples: Samples) -> None:
    place = here.home / "lancedb"
    # Deleted data disappears within one or two sweeps.
    eventually(
        lambda: _disk(place) <= 3 * int(here.rows(DATA)[0][0]) + SPARE_DISK,
        30,
        lambda: f"{_disk(place)} bytes for {here.rows(DATA)}",
    )
    assert max(samples.files) <= MAX_FILES
    half = len(samples.connections) // 2
    # Pools open connections on demand: later not more than before, except for one connection per process.
    processes = sum(1 for _ in _processes(here))
    assert max(samples.connections[half:]) <= max(samples.connections[:half]) + processes
    if SECONDS < MEMORY_SECONDS:
        return
    for name, seen in samples.memory.items():
        quarter = len(seen) // 4
        if quarter >= 5:
            before, after = statistics.median(seen[quarter : 2 * quarter]), statistics.median(seen[-quarter:])
            assert after <= max(before * GROWTH, before + GROWTH_BYTES), f"{name} grew from {before} to {after}"
