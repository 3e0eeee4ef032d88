"""Simulated worker processes, each a thread with connections, leases and messages of its own.

`python -m tests.bench.fleet_worker` reads from its input how many bulk workers it is to have, one number a line. What
they do is real: messages, claims, leases, reading, cutting, rows and budgets. Simulated are the provider and the store,
which answer after a delay, and the files of the large folders, which lie on no disk. Threads share an interpreter, and
there is no pool of Celery's.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from celery.app import task as celery_task
from kombu import Exchange, Queue

from schemas.content.document import FileContent
from schemas.content.source import EmbedderProfile
from worker.app import BULK, FAST, app, settings
from worker.embed import Embedder, Vectors
from worker.ignore import Rules
from worker.machine import logs
from worker.machine.memory.freed_memory import IdleProcess
from worker.resources import Resources
from worker.sources import Source
from worker.state.connections import Application, name_process
from worker.state.index.tools import Index
from worker.tasks import process
from worker.vectors import VectorStore

#: Processes of this program among which the bulk workers are divided, and fast workers, which one more process has.
PROGRAMS, FAST_WORKERS = 4, 2
#: Begins the names of projects whose files lie on no disk.
SIMULATED = "large-"
DIMENSIONS = 16
#: Texts of a request to the provider, and the seconds that it and a write to the store take. The provider answers late,
#: because a file is one text here, and some ten elsewhere.
TEXTS, PROVIDER_SECONDS, STORE_SECONDS = 16, 3.0, 0.05
#: Seconds that a worker waits for a message before it looks whether it is still wanted.
WAIT_SECONDS = 1.0
TEXT = "# Note {key}\n\nThe tide of {key} is high at noon, and the ferry of {key} waits for it.\n"


class LateEmbedder:
    """A model whose provider answers late."""

    max_inputs = TEXTS
    max_request_tokens = 300_000

    def __init__(self, profile: EmbedderProfile) -> None:
        self.profile = profile

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        time.sleep(PROVIDER_SECONDS)
        vectors = np.random.default_rng().standard_normal((len(texts), self.profile.dimensions), dtype=np.float32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class LateStore:
    """A store that takes its time and keeps nothing."""

    has_keywords = True
    is_here = False

    def write(self, *_: Any, **__: Any) -> None:
        """See `VectorStore`."""
        time.sleep(STORE_SECONDS)

    def ids(self, *_: Any) -> list[Any]:
        """See `VectorStore`."""
        return []

    def vectors(self, *_: Any) -> dict[Any, Any]:
        """See `VectorStore`."""
        return {}

    attributes = vectors

    def optimize(self, *_: Any, **__: Any) -> None:
        """See `VectorStore`."""

    verify = optimize


class NoDisk:
    """A folder of notes that differ by their names. It is already listed."""

    def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
        """See `Source`."""
        return FileContent(TEXT.format(key=key.decode()).encode(), "stamp")


class SimulatedResources(Resources):
    """What one simulated process holds open."""

    def embedder(self, profile: EmbedderProfile, *, explicit_dimensions: bool, for_queries: bool = False) -> Embedder:
        """See `Resources`."""
        return LateEmbedder(profile)

    def store(self, name: str, keyword_index: str, text_key: str | None = None) -> VectorStore:
        """See `Resources`."""
        return cast("VectorStore", LateStore())

    def source_of(self, index: Index, rules: Rules | None = None) -> Source:
        """See `Resources`."""
        if index.project_id.startswith(SIMULATED):
            return cast("Source", NoDisk())
        return super().source_of(index, rules)


_own = threading.local()


def resources() -> Resources:
    """This thread's resources, in place of those of a process."""
    if not hasattr(_own, "resources"):
        _own.resources = SimulatedResources(settings, pool_size=2)
    found: Resources = _own.resources
    return found


class OwnMemory(IdleProcess):
    """Gives no memory back, which is for a process of one worker."""

    @contextmanager
    def work(self) -> Iterator[None]:
        """See `IdleProcess`."""
        yield


def work(queue: str, stop: threading.Event) -> None:
    """Handle messages as a process of Celery's pool does, one at a time."""
    with app.connection_for_read() as connection:
        waiting = connection.SimpleQueue(Queue(queue, Exchange(queue), routing_key=queue))
        while not stop.is_set():
            try:
                message = waiting.get(timeout=WAIT_SECONDS)
            except waiting.Empty:
                continue
            arguments, _, _ = message.payload
            app.tasks[message.headers["task"]].apply(args=arguments, routing_key=queue)
            message.ack()


def pretend() -> None:
    """Let each thread be a process."""
    process.resources = resources  # type: ignore[assignment] # it caches nothing
    process.idle = OwnMemory()
    celery_task.gethostname = lambda: threading.current_thread().name
    name_process(Application.WORKER)
    logs.configure("ERROR")


def simulate(number: int, told: int) -> None:
    """Run workers: the first of these programs the fast ones, and the others their shares of what they are told."""
    stop = threading.Event()
    running = 0
    with os.fdopen(told) as lines:
        for line in lines:
            wanted = FAST_WORKERS if number == 0 else len(range(number, int(line) + 1, PROGRAMS))
            queue = BULK if number else FAST
            for each in range(running, wanted):
                # two processes of a machine have one name
                name = f"{queue}-{number}@{each // 2}"
                threading.Thread(target=work, args=(queue, stop), name=name, daemon=True).start()
            running = wanted
    stop.set()


def main() -> None:
    pretend()
    app.loader.import_default_modules()
    pipes = list[int]()
    for number in range(PROGRAMS + 1):
        read, write = os.pipe()
        if os.fork() == 0:
            sys.stdin.close()
            simulate(number, read)
            os._exit(0)
        os.close(read)
        pipes.append(write)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        for pipe in pipes:
            os.write(pipe, line.encode())


if __name__ == "__main__":
    main()
