"""Builds of summary trees by method: seconds, processor time and memory of the worker, and requests.

A strict chat model answers at once, so all of this is Foldex's own work. The lower bound of requests is one a summary.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.running import running
from tests.fakes.chat import ChatFake
from tests.service import TOOLS, Service, checked, eventually

LEAVES = (1_000, 10_000)
METHODS = ("adjacent", "kmeans", "gmm")
#: Texts of a file, files of a topic, and words of a text.
SECTIONS, FILES, WORDS = 10, 5, 60
#: Words that a topic has for itself, and words that all topics share.
OWN_WORDS, COMMON_WORDS = 40, 400
#: Seconds between two looks at the memory, and seconds that a build may take.
LOOK_SECONDS = 0.05
BUILD_SECONDS = 3600
SECONDS = "SELECT extract(epoch FROM built_at - started_at)::float FROM summary_tree ORDER BY built_at DESC LIMIT 1"


def run(place: Path) -> None:
    roots = place / "folders"
    with ChatFake() as chat, running(place, roots, bulk=2, delay_ms=0, **chat.env) as service:
        print(
            f"{'leaves':>7} {'method':9} {'seconds':>8} {'processor':>9} {'MB worker':>9} {'MB clustering':>13} "
            f"{'summaries':>9} {'requests':>8}"
        )
        for leaves in LEAVES:
            for method in METHODS:
                folder = _fill(roots / f"{method}-{leaves}", leaves)
                _measure(service, chat, folder, method)


def _fill(folder: Path, leaves: int) -> Path:
    """Write Markdown with one chunk a section, about one topic for every few files."""
    chance = random.Random(folder.name)
    for number in range(leaves // SECTIONS):
        topic = number // FILES
        words = [f"{_word(topic * OWN_WORDS + n)}" for n in range(OWN_WORDS)]
        words += [f"common{_word(chance.randrange(COMMON_WORDS))}" for _ in range(OWN_WORDS)]
        path = folder / f"topic-{topic}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (
            f"# Section {n} of {number}\n\n{' '.join(chance.choices(words, k=WORDS))}.\n" for n in range(SECTIONS)
        )
        path.write_text("\n".join(sections))
    return folder


def _word(number: int) -> str:
    """A word of letters only: the provider's fake splits words at digits."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:05}")


def _measure(service: Service, chat: ChatFake, folder: Path, method: str) -> None:
    tool = service.local_tool(folder)
    service.wait(tool, seconds=BUILD_SECONDS)
    chat.reset()
    with _watched(service.processes["worker-bulk"].child.pid) as peak:
        raptor = {"enabled": True, "cluster_method": method}
        checked(service.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": raptor}}), 202)
        status: dict[str, Any] = {}

        def has_ended() -> bool:
            status.update(service.get(f"{TOOLS}/{tool}/raptor/status"))
            return status["indexing_status"] in {"indexed", "error", "cancelled"}

        eventually(has_ended, BUILD_SECONDS, service.logs)
    if status["indexing_status"] != "indexed":
        raise SystemExit(f"no tree: {status['error']}")
    ((seconds,),) = service.rows(SECONDS)
    print(
        f"{status['leaf_nodes']:7} {method:9} {seconds:8.1f} {peak.processor:9.1f} {peak.worker >> 20:9} "
        f"{peak.clustering >> 20:13} {status['summary_nodes']:9} {chat.requests:8}",
        flush=True,
    )


@dataclass
class Peak:
    """Peak memory in bytes of the process that builds and of its child that clusters, and processor time in seconds."""

    worker: int = 0
    clustering: int = 0
    processor: float = 0.0


@contextmanager
def _watched(pid: int) -> Iterator[Peak]:
    """Watch the processes of a worker. One of them builds the tree, and the others wait."""
    peak, over, before = Peak(), threading.Event(), _processor_time(pid)

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            with suppress(psutil.NoSuchProcess):
                for worker in psutil.Process(pid).children():
                    peak.worker = max(peak.worker, worker.memory_info().rss)
                    for child in worker.children():
                        peak.clustering = max(peak.clustering, child.memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
        peak.processor = _processor_time(pid) - before


def _processor_time(pid: int) -> float:
    """Seconds that the processes of a worker used, with those that ended."""
    worker = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:4]) for process in (worker, *worker.children()))
