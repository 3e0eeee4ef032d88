"""Builds of summary trees by method: seconds, processor time and memory of the worker, and requests.

A strict chat model answers at once, so all of this is Foldex's own work. The lower bound of requests is one a summary.
Of memory that processes share, each counts its part: its proportional set size, which only Linux tells.
`TREE_LEAVES` and `TREE_METHODS` choose what is built.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator, Sequence
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
#: Seconds between two looks at the memory, which take some time too, and seconds that a build may take.
LOOK_SECONDS = 0.2
BUILD_SECONDS = 3600
SECONDS = "SELECT extract(epoch FROM built_at - started_at)::float FROM summary_tree ORDER BY built_at DESC LIMIT 1"


def run(place: Path) -> None:
    roots = place / "folders"
    with ChatFake() as chat, running(place, roots, bulk=2, delay_ms=0, **chat.env) as service:
        print(
            f"{'leaves':>7} {'method':9} {'seconds':>8} {'processor':>9} {'MB worker':>9} {'MB clustering':>13} "
            f"{'MB both':>7} {'summaries':>9} {'requests':>8}"
        )
        for leaves in map(int, _chosen("TREE_LEAVES", LEAVES)):
            for method in _chosen("TREE_METHODS", METHODS):
                folder = _fill(roots / f"{method}-{leaves}", leaves)
                _measure(service, chat, folder, method)


def _chosen(variable: str, every: Sequence[object]) -> Sequence[str]:
    """The values in a variable of the environment, or all."""
    return os.environ[variable].split(",") if os.environ.get(variable) else [str(value) for value in every]


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
        f"{peak.clustering >> 20:13} {peak.both >> 20:7} {status['summary_nodes']:9} {chat.requests:8}",
        flush=True,
    )


@dataclass
class Peak:
    """Peak memory in bytes of the process that builds, of its child that clusters, and of both together.

    `processor` are the seconds of processor time of all.
    """

    worker: int = 0
    clustering: int = 0
    both: int = 0
    processor: float = 0.0


@contextmanager
def _watched(pid: int) -> Iterator[Peak]:
    """Watch the processes of a worker. One of them builds the tree, and the others wait."""
    peak, over, before = Peak(), threading.Event(), _processor_time(pid)

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            with suppress(psutil.NoSuchProcess):
                for worker in psutil.Process(pid).children():
                    own = worker.memory_full_info().pss
                    clustering = sum(child.memory_full_info().pss for child in worker.children())
                    peak.worker, peak.clustering = max(peak.worker, own), max(peak.clustering, clustering)
                    peak.both = max(peak.both, own + clustering)

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
