"""Indexes every twelfth Python, Markdown and JSON file of the installed packages, and measures status calls meanwhile.

It does so with a chunk for each definition, twice, and with filled chunks (`config.granularity`: "packed"), which are
as long as those of other indexers. Each run begins once the vectors of the run before are compacted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

import psutil

from tests.bench.processor import processor_seconds
from tests.bench.running import running
from tests.service import PROJECT, TOOLS, Service

#: Processor seconds a second of a service at rest, and seconds to wait for that.
RESTING, REST_SECONDS = 0.2, 60
SUFFIXES = {".py", ".md", ".json"}
LARGEST = 262_144
#: One file of so many is taken.
STEP = 12


def run(place: Path) -> None:
    """Index the folder for projects that share no cached vectors. Only the first run includes start-up costs."""
    folder = place / "corpus"
    size = corpus(folder)
    with running(place, folder, CHUNK_SIZE_TOKENS="512", CHUNK_OVERLAP_TOKENS="64") as service:
        seconds = [
            _indexed(service, folder, size, project, granularity)
            for project, granularity in ((PROJECT, "definition"), ("project-2", "definition"), ("project-3", "packed"))
        ]
    print("first run {:.1f} s, second run {:.1f} s, with filled chunks {:.1f} s".format(*seconds))


def _indexed(service: Service, folder: Path, size: int, project: str, granularity: str) -> float:
    rest()
    stop, waits, peaks = Event(), list[float](), dict[str, int]()
    print(f"-- granularity {granularity}")
    before, idle, started = processor_seconds(), psutil.cpu_times().idle, time.monotonic()
    tool = service.local_tool(folder, project=project, config={"granularity": granularity})
    watchers = [
        Thread(target=_ask, args=(service, tool, stop, waits)),
        Thread(target=weigh, args=(service, stop, peaks)),
    ]
    for watcher in watchers:
        watcher.start()
    status = service.wait(tool, seconds=600)
    seconds = time.monotonic() - started
    unused = (psutil.cpu_times().idle - idle) / seconds / (os.cpu_count() or 1)
    spent = {name: total - before.get(name, 0) for name, total in processor_seconds().items()}
    stop.set()
    for watcher in watchers:
        watcher.join()
    _print(service, tool, status, seconds, size)
    print_processor(spent, int(str(status["total_chunks"])))
    print(f"unused processor time: {unused:.0%}")
    waits.sort()
    print(f"status during the run: p50 {statistics.median(waits):.1f} ms, p99 {waits[int(len(waits) * 0.99)]:.1f} ms")
    print("peak memory: " + ", ".join(f"{name} {peak / 1e6:.0f} MB" for name, peak in sorted(peaks.items())))
    return seconds


def rest() -> None:
    """Wait until the service has nothing to do: it compacts vectors after a run."""
    deadline, before = time.monotonic() + REST_SECONDS, 0.0
    while time.monotonic() < deadline:
        spent = sum(processor_seconds().values())
        if spent - before < RESTING:
            return
        before = spent
        time.sleep(1)


def corpus(folder: Path) -> int:
    """Copy files of installed packages, chosen by a hash of their paths. Returns the bytes copied."""
    root = Path(sysconfig.get_paths()["purelib"])
    found = [path for path in root.rglob("*") if path.suffix in SUFFIXES and path.stat().st_size <= LARGEST]
    by_hash = sorted(found, key=lambda path: hashlib.sha256(str(path.relative_to(root)).encode()).digest())
    total = 0
    for path in by_hash[::STEP]:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        total += path.stat().st_size
    return total


def _print(service: Service, tool: str, status: dict[str, object], seconds: float, size: int) -> None:
    chunks = int(str(status["total_chunks"]))
    print(f"{status['total_files']} files, {size / 1e6:.1f} MB, {chunks} chunks in {seconds:.1f} s")
    print(f"{chunks / seconds:.0f} chunks/s, {size / 1e6 / seconds:.2f} MB/s; failed {status['failed_files']}")
    stages: dict[str, float] = {}
    query = (
        "SELECT timings FROM search_index_file AS f JOIN search_tool AS t ON f.index_id = t.index_id WHERE t.id = %s"
    )
    for (timings,) in service.rows(query, tool):
        for stage, spent in timings.items():
            stages[stage] = stages.get(stage, 0.0) + spent
    print("seconds by stage, all processes: " + json.dumps({k: round(v, 1) for k, v in stages.items()}))


def print_processor(seconds: Mapping[str, float], chunks: int) -> None:
    """Print what each program took of the processor for a chunk."""
    each = {name: spent / chunks * 1e6 for name, spent in sorted(seconds.items(), key=lambda item: -item[1])}
    shares = ", ".join(f"{name} {share:.0f}" for name, share in each.items())
    print(f"microseconds of the processor for a chunk: {sum(each.values()):.0f} ({shares})")


def _ask(service: Service, tool: str, stop: Event, waits: list[float]) -> None:
    while not stop.wait(0.05):
        started = time.monotonic()
        service.client.get(f"{TOOLS}/{tool}/status")
        waits.append((time.monotonic() - started) * 1000)


def weigh(service: Service, stop: Event, peaks: dict[str, int]) -> None:
    """Record the peak memory of each process until told to stop."""
    while not stop.wait(0.2):
        for name, process in service.processes.items():
            root = psutil.Process(process.child.pid)
            for number, one in enumerate([root, *root.children(recursive=True)]):
                try:
                    key = f"{name}[{number}]"
                    peaks[key] = max(peaks.get(key, 0), one.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
