"""Measures a folder ten times as large: seconds for each file, memory, and the delay of a small folder beside it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.bench.folder import weigh
from tests.bench.running import running
from tests.service import Service

SIZES = (10_000, 100_000)


def run(place: Path) -> None:
    for size in SIZES:
        folder = place / f"folder-{size}"
        _fill(folder, size)
        small = _small(place / f"small-{size}")
        with running(place / str(size), place) as service:
            stop, peaks = threading.Event(), dict[str, int]()
            watcher = threading.Thread(target=weigh, args=(service, stop, peaks))
            watcher.start()
            started = time.monotonic()
            tool = service.local_tool(folder)
            beside = _seconds(service, small)
            service.wait(tool, seconds=3_000)
            seconds = time.monotonic() - started
            stop.set()
            watcher.join()
        print(f"{size} files: {seconds:.1f} s, {seconds / size * 1000:.2f} ms a file; 3 files beside it {beside:.1f} s")
        print("  peak memory: " + ", ".join(f"{name} {peak / 1e6:.0f} MB" for name, peak in sorted(peaks.items())))


def _fill(folder: Path, size: int) -> None:
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
