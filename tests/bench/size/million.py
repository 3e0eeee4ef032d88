"""Measures one folder in LanceDB by its number of chunks, and how the costs of a larger one compare with the first.

Build, compaction, unchanged run, edits, queries of all modes with and without filters, memory and disk.
`CHUNKS="10000 100000"` measures other numbers than the usual ones.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Thread

import psutil

from tests.bench.folder import rest, weigh
from tests.bench.processor import processor_seconds
from tests.bench.running import running
from tests.bench.vectors import bytes_below
from tests.service import TOOLS, Service

NUMBERS = (100_000, 1_000_000)
#: Chunks of a file, files of a directory, and words of a chunk besides those that all chunks have.
CHUNKS_OF_FILE, FILES_OF_DIRECTORY, WORDS_OF_CHUNK = 10, 500, 8
#: Different words, each as frequent as all others.
VOCABULARY = 20_000
#: Queries of each kind, each with another text, and how often a run is repeated.
QUERIES, RUNS = 100, 3
#: A word of every chunk.
COMMON = "section"
MODES = ("hybrid", "vector", "keyword")
#: Half of the directories end with one of these digits, one in a thousand of the files has this name.
FILTERS: Mapping[str, Mapping[str, object]] = {
    "all": {},
    "half of the files": {"path": "*[02468]/**"},
    "one file in a hundred": {"path": "**/*77.md"},
}


class Figures:
    """Figures by name, in the order in which they were measured, each with what it is divided by for a ratio."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def add(self, name: str, value: float, unit: str, first: Figures | None) -> None:
        """Note a figure and print it, with its ratio to that of the first folder."""
        self.values[name] = value
        ratio = f"  {value / first.values[name]:6.2f} times the first" if first and first.values.get(name) else ""
        print(f"  {name:<56} {value:10.2f} {unit:<12}{ratio}", flush=True)


def run(place: Path) -> None:
    first: Figures | None = None
    for number in [int(each) for each in os.environ.get("CHUNKS", "").split()] or NUMBERS:
        folder = place / str(number) / "folder"
        files = number // CHUNKS_OF_FILE
        fill(folder, files)
        with running(place / str(number), folder) as service:
            print(f"{files:,} files", flush=True)
            figures = Figures()
            _measure(service, folder, files, lambda *given, of=figures, to=first: of.add(*given, to))
        first = first or figures


Add = Callable[[str, float, str], None]


def _measure(service: Service, folder: Path, files: int, add: Add) -> None:
    tool = _build(service, folder, files, add)
    _runs(service, tool, folder, files, add)
    _queries(service, tool, add, "")
    _edit(folder, 1)
    _reindex(service, tool, {"paths": [_name(1)]})
    _queries(service, tool, add, ", right after an edit")
    memory, disk = _memory(service), service.home
    for name, megabytes in sorted(memory.items()):
        add(f"memory of {name}", megabytes, "MB")
    add("disk, LanceDB", bytes_below(disk / "lancedb") / files / CHUNKS_OF_FILE, "bytes/chunk")
    ((database,),) = service.rows("SELECT pg_database_size(current_database())")
    add("disk, Postgres", database / files / CHUNKS_OF_FILE, "bytes/chunk")


def _build(service: Service, folder: Path, files: int, add: Add) -> str:
    stop, peaks = Event(), dict[str, int]()
    watcher = Thread(target=weigh, args=(service, stop, peaks))
    watcher.start()
    before, started = _spent(), time.monotonic()
    tool = service.local_tool(folder)
    status = service.wait(tool, seconds=7_200)
    seconds, spent = time.monotonic() - started, _spent() - before
    assert status["total_chunks"] == files * CHUNKS_OF_FILE, status
    add("build", 1e6 * seconds / files, "µs/file")
    add("build, processor", 1e6 * spent / files, "µs/file")
    before = _spent()
    rest()
    add("compaction after it, processor", 1e6 * (_spent() - before) / files, "µs/file")
    stop.set()
    watcher.join()
    add("largest process", max(peaks.values()) / 1e6, "MB")
    return tool


def _runs(service: Service, tool: str, folder: Path, files: int, add: Add) -> None:
    add("unchanged run", 1e6 * _median(lambda _: _reindex(service, tool, {})) / files, "µs/file")
    add("run over one unchanged path", 1e3 * _median(lambda _: _reindex(service, tool, {"paths": [_name(0)]})), "ms")

    def named(number: int) -> float:
        _edit(folder, number)
        return _reindex(service, tool, {"paths": [_name(number)]})

    add("run over one edited path", 1e3 * _median(named), "ms")
    before = _spent()
    rest()
    add("compaction after it, processor of all", 1e3 * (_spent() - before), "ms")


def _queries(service: Service, tool: str, add: Add, when: str) -> None:
    for mode in MODES:
        for name, filters in FILTERS.items():
            took = [_took(service, tool, text, mode, filters) for text in _texts(f"{mode} {name} {when}")]
            of = f"{mode}, {name}{when}"
            add(f"query, p50: {of}", statistics.median(took), "ms")
            add(f"query, p99: {of}", statistics.quantiles(took, n=100)[98], "ms")
    took = [_took(service, tool, f"{COMMON} {n}", "keyword", {}) for n in range(QUERIES)]
    add(f"query, p50: a word of every chunk{when}", statistics.median(took), "ms")
    add(f"query, p99: a word of every chunk{when}", statistics.quantiles(took, n=100)[98], "ms")


def _took(service: Service, tool: str, text: str, mode: str, filters: Mapping[str, object]) -> float:
    began = time.perf_counter()
    service.post(f"{TOOLS}/{tool}/query", {"query": text, "mode": mode, "filters": filters}, 200)
    return 1000 * (time.perf_counter() - began)


def _reindex(service: Service, tool: str, asked: Mapping[str, object]) -> float:
    began = time.monotonic()
    service.post(f"{TOOLS}/{tool}/reindex", asked)
    service.wait(tool, seconds=3_600)
    return time.monotonic() - began


def _median(measure: Callable[[int], float]) -> float:
    return statistics.median(measure(number) for number in range(RUNS))


def _spent() -> float:
    return sum(processor_seconds().values())


def _memory(service: Service) -> Mapping[str, float]:
    """Megabytes of each program, where pages that several processes share are counted once."""
    of_programs = {}
    for name, process in service.processes.items():
        root = psutil.Process(process.child.pid)
        each = [root, *root.children(recursive=True)]
        of_programs[name] = sum(one.memory_full_info().pss for one in each) / 1e6
    return of_programs


def fill(folder: Path, files: int) -> None:
    """Write files of ten sections, whose words are drawn from a fixed vocabulary."""
    for number in range(files):
        path = folder / _name(number)
        if number % FILES_OF_DIRECTORY == 0:
            path.parent.mkdir(parents=True)
        path.write_text(_content(number, 0))


def _name(number: int) -> str:
    return f"d{number // FILES_OF_DIRECTORY}/{number}.md"


def _edit(folder: Path, number: int) -> None:
    (folder / _name(number)).write_text(_content(number, time.time_ns()))


def _content(number: int, edition: int) -> str:
    chance = random.Random(number)
    sections = [f"## {COMMON.title()} {n}\n\n{_words(chance)} {number} {n}\n" for n in range(CHUNKS_OF_FILE)]
    return "\n".join([*sections[:-1], sections[-1] if not edition else f"{sections[-1].rstrip()} {edition}\n"])


def _words(chance: random.Random, number: int = WORDS_OF_CHUNK) -> str:
    return " ".join(f"word{chance.randrange(VOCABULARY)}" for _ in range(number))


def _texts(seed: str) -> Iterator[str]:
    """Queries that nobody has asked."""
    chance = random.Random(seed)
    return (_words(chance, 4) for _ in range(QUERIES))
