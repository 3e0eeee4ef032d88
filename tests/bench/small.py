"""Measures three small files with a provider without delay, from creation to ready."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

from tests.bench.running import running
from tests.service import Service

RUNS = 15


def run(place: Path) -> None:
    folders = [_folder(place / "folders" / str(number)) for number in range(RUNS + 1)]
    with running(place, place / "folders") as service:
        _seconds(service, folders[0])  # the first run loads what all later ones use
        seconds = [_seconds(service, folder) for folder in folders[1:]]
    print(f"3 files, create to ready: p50 {statistics.median(seconds):.3f} s, max {max(seconds):.3f} s, {RUNS} runs")


def _folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("one.md", "two.txt", "three.json"):
        text = f"# {folder.name}\n\ntext of its own\n"
        (folder / name).write_text(json.dumps({"text": text}) if name.endswith("json") else text)
    return folder


def _seconds(service: Service, folder: Path) -> float:
    started = time.monotonic()
    tool = service.local_tool(folder)
    while service.status(tool)["status"] != "ready":
        time.sleep(0.01)
    return time.monotonic() - started
