"""Compares four workers with one, each with one concurrent request, when the provider takes half a second."""

from __future__ import annotations

import time
from pathlib import Path

from tests.bench.running import running

FILES, DELAY_MS = 640, 500


def run(place: Path) -> None:
    folder = place / "folder"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.txt").write_text(f"note {number} has its own text\n")
    seconds = {workers: _seconds(place / str(workers), folder, workers) for workers in (1, 4)}
    print(f"one worker {seconds[1]:.1f} s, four {seconds[4]:.1f} s: {seconds[1] / seconds[4]:.2f} times as fast")


def _seconds(place: Path, folder: Path, workers: int) -> float:
    env = {"EMBEDDING_CONCURRENCY": "1", "EMBEDDING_BATCH_SIZE": "4"}
    with running(place, folder, bulk=workers, delay_ms=DELAY_MS, **env) as service:
        started = time.monotonic()
        service.wait(service.local_tool(folder), seconds=600)
        return time.monotonic() - started
