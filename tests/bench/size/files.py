"""Measures folders of one-line files: seconds, processor time and memory, and the delay of a small folder beside each.

`FILES=1000000` measures other sizes than the usual ones.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.folder import weigh
from tests.bench.processor import processor_seconds
from tests.bench.running import running
from tests.service import Service

SIZES = (10_000, 100_000)


def run(place: Path) -> None:
    for size, folder in folders(place):
        small = _small(place / f"small-{size}")
        with running(place / str(size), place) as service:
            _measure(service, folder, small, size)


def _measure(service: Service, folder: Path, small: Path, size: int) -> None:
    stop, peaks = threading.Event(), dict[str, int]()
    watcher = threading.Thread(target=weigh, args=(service, stop, peaks))
    watcher.start()
    started, before = time.monotonic(), processor_seconds()
    tool = service.local_tool(folder)
    beside = _seconds(service, small)
    service.wait(tool, seconds=7_200)
    seconds = time.monotonic() - started
    spent = {name: total - before.get(name, 0) for name, total in processor_seconds().items()}
    stop.set()
    watcher.join()
    print(f"{size} files: {seconds:.1f} s, {seconds / size * 1e6:.0f} µs a file; 3 files beside it {beside:.1f} s")
    shares = ", ".join(f"{name} {each / size * 1e6:.0f}" for name, each in sorted(spent.items(), key=lambda i: -i[1]))
    print(f"  processor, µs a file: {sum(spent.values()) / size * 1e6:.0f} ({shares})")
    print("  peak memory: " + ", ".join(f"{name} {peak / 1e6:.0f} MB" for name, peak in sorted(peaks.items())))
    print(f"  database: {_bytes(service) / size:.0f} bytes a file", flush=True)


def _bytes(service: Service) -> int:
    return int(service.rows("SELECT pg_database_size(current_database())")[0][0])


def sizes() -> Sequence[int]:
    """The numbers of files to measure."""
    return [int(size) for size in os.environ.get("FILES", "").split()] or SIZES


def folders(place: Path) -> Iterator[tuple[int, Path]]:
    """Write a folder of each size, one after the other."""
    for size in sizes():
        folder = place / f"folder-{size}"
        _fill(folder, size)
        yield size, folder


def _fill(folder: Path, size: int) -> None:
    """Write files of one line each, 500 in a directory."""
    for number in range(size):
        path = folder / f"d{number // 500}" / f"{number}.txt"
        if number % 500 == 0:
            path.parent.mkdir(parents=True)
        path.write_text(f"note {number}\n")


def _small(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# {folder.name}\n\ntext {number}\n")
    return folder


def _seconds(service: Service, folder: Path) -> float:
    time.sleep(3)  # by now the large folder is being listed and indexed
    started = time.monotonic()
    service.wait(service.local_tool(folder), seconds=60)
    return time.monotonic() - started
