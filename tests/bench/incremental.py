"""The cost of changes: embedded texts after an edit, an insertion, a rename and a copy, and seconds without changes."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import httpx

from tests.bench.running import running
from tests.service import Service

FILES = 1_000
RUNS = 5


def run(place: Path) -> None:
    folder = place / "folder"
    _fill(folder)
    with running(place, folder) as service:
        first = _index(service, folder)
        print(f"first run: {first['embedded_chunks']} texts in {_audit(service)['requests']} requests")
        seconds = []
        for _ in range(RUNS):
            started = time.monotonic()
            _index(service, folder)
            seconds.append(time.monotonic() - started)
        print(f"{FILES} unchanged files, create to ready: p50 {statistics.median(seconds):.2f} s, {RUNS} runs")
        for what, change in CHANGES.items():
            change(folder)
            before = _audit(service)["texts"]
            status = _index(service, folder)
            paid = _audit(service)["texts"] - before
            print(f"{what}: {paid} texts paid for, {status['removed_files']} files removed")


def _edit(folder: Path) -> None:
    path = folder / "d1" / "note-1.md"
    path.write_text(path.read_text().replace("Paragraph 2", "Edited paragraph 2"))


def _insert(folder: Path) -> None:
    path = folder / "long.txt"
    path.write_text("a line at the top\n" + path.read_text())


def _rename(folder: Path) -> None:
    (folder / "d2").rename(folder / "renamed")


def _copy(folder: Path) -> None:
    shutil.copytree(folder / "d3", folder / "copied")


CHANGES = {
    "one paragraph edited": _edit,
    "a line inserted at the top of 2 MB": _insert,
    "a directory renamed": _rename,
    "a directory copied": _copy,
}


def _fill(folder: Path) -> None:
    for number in range(FILES - 1):
        path = folder / f"d{number % 10}" / f"note-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        paragraphs = "\n\n".join(f"Paragraph {n} of note {number} says something of its own." for n in range(5))
        path.write_text(f"# Note {number}\n\n{paragraphs}\n")
    (folder / "long.txt").write_text("\n".join(f"line {n} has the value {n * 7919 % 10007}" for n in range(60_000)))


def _index(service: Service, folder: Path) -> dict[str, Any]:
    """Start an incremental task over the same index, by creating another tool over the same folder."""
    return service.wait(service.local_tool(folder), seconds=300)


def _audit(service: Service) -> dict[str, Any]:
    address = service.env["EMBEDDING_API_BASE"].removesuffix("/v1")
    answer: dict[str, Any] = httpx.get(f"{address}/_audit", trust_env=False).json()
    return {"requests": len(answer["requests"]), "texts": sum(r["inputs"] for r in answer["requests"])}
