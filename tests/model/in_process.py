"""Foldex in this process: the API, and Celery tasks as messages that are handled in any order, lost and duplicated.

Postgres, the store and the provider are real, or fakes behind their own protocols. Time passes by moving the rows'
times into the past. So hundreds of tasks run in seconds, with thresholds of a few files.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from starlette.testclient import TestClient

from api.main import create_app
from worker import app, dispatch
from worker.index import pipeline, prepare, write
from worker.resources import Resources
from worker.settings import Settings
from worker.sources.local import LocalFolder
from worker.sources.nodes import NodeTree
from worker.sources.s3 import S3Prefix
from worker.state.index import tasks
from worker.tasks import failures, limits, process
from worker.upkeep import deletions, fsck, open_tasks

#: Seconds that pass between two polls while there is nothing to do; longer than any wait for a message.
PAUSE = 4.0
#: Consecutive polls with nothing to do but an open task, after which the task counts as stuck.
IDLE = 10
#: Maximum number of messages that the work on one change may take; far more than it should.
MAX_MESSAGES = 5_000
#: How a task ends whose files were all deleted between its listing and their turn. A later listing finds them gone.
DELETED_BEFORE_READ = re.compile("no_file_indexed: .*(?:still|no longer) exists", re.DOTALL)
#: Tables whose times decide nothing, or are stamps of content.
TIMELESS = {"content_node", "search_index_file", "api_key", "embedding_cache"}


@dataclass(frozen=True, slots=True)
class Message:
    """A Celery task by name, with its argument."""

    name: str
    args: tuple[str, ...]
    queue: str


class Killed(BaseException):
    """Simulates the death of the process: our code does not catch it."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The thresholds of the code, made small."""

    small_task: int
    claim_files: int
    files_per_slice: int
    page: int
    rows: int
    prepare_chunks: int
    deletes: int

    @classmethod
    def chosen(cls, by: random.Random) -> Sizes:
        return cls(
            small_task=by.choice([2, 4, 8]),
            claim_files=by.choice([1, 2, 3, 5]),
            files_per_slice=by.choice([1, 2, 4]),
            page=by.choice([1, 2, 3, 7]),
            rows=by.choice([1, 3, 100]),
            prepare_chunks=by.choice([0, 3, 100]),
            deletes=by.choice([1, 5, 100]),
        )

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(tasks, "SMALL_TASK", self.small_task)
        patch.setattr(pipeline, "MAX_CLAIM_FILES", self.claim_files)
        patch.setattr(pipeline, "MIN_CLAIM_FILES", self.claim_files)
        patch.setattr(dispatch, "FILES_PER_SLICE", self.files_per_slice)
        for source in (LocalFolder, NodeTree, S3Prefix):
            patch.setitem(source.__init__.__kwdefaults__ or {}, "page_size", self.page)
        patch.setitem(write.upsert.__kwdefaults__ or {}, "rows", self.rows)
        patch.setattr(prepare, "PREPARE_CHUNKS", self.prepare_chunks)
        patch.setitem(deletions.delete_vectors.__kwdefaults__ or {}, "each", self.deletes)
        patch.setattr(fsck, "SAMPLE", self.deletes + 1)


@dataclass
class InProcess:
    """All of Foldex in one process. `parallel` is the number of messages that are handled concurrently."""

    client: httpx.Client
    resources: Resources
    by: random.Random
    parallel: int = 1
    #: Probability that a message is lost or duplicated, and that a process is killed while it handles one.
    losses: float = 0.0
    deaths: float = 0.0
    inbox: list[Message] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    handled: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _killable: threading.local = field(default_factory=threading.local)

    # ---- what takes the place of Celery

    def send(self, name: str, args: list[str] | None = None, *, queue: str, **_: Any) -> None:
        """Replaces the method of a Celery application."""
        with self._lock:
            copies = 1
            if self.by.random() < self.losses:
                copies = self.by.choice([0, 2])
            self.inbox += [Message(name, tuple(args or ()), queue)] * copies

    def queued(self, queue: str) -> int:
        with self._lock:
            return sum(message.queue == queue for message in self.inbox)

    def work(self, messages: int = 1) -> bool:
        """Handle some messages, up to `parallel` of them at once. Returns whether there were any."""
        with self._lock:
            self.by.shuffle(self.inbox)
            taken = [self.inbox.pop() for _ in range(min(messages, len(self.inbox)))]
        if self.parallel > 1:
            with ThreadPoolExecutor(self.parallel) as threads:
                list(threads.map(self._handle, taken))
        else:
            for message in taken:
                self._handle(message)
        self.handled += len(taken)
        return bool(taken)

    def sweep(self) -> None:
        """Handle what beat sends."""
        self._handle(Message("foldex.sweep", (), app.FAST))

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        with self.resources.pool.connection() as connection:
            for statement in _shifts(connection):
                connection.execute(statement, {"seconds": seconds})

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.resources.pool.connection() as connection:
            return connection.execute(query.encode(), values or None).fetchall()

    def _handle(self, message: Message) -> None:
        task = app.app.tasks[message.name]
        self._killable.left = self.by.randint(0, 30) if self.by.random() < self.deaths else None
        # A slice ends at once, or when nothing is left.
        patched = {queue: self.by.choice([0.0, 20.0]) for queue in (app.FAST, app.BULK)}
        limits.SLICE_SECONDS.update(patched)
        try:
            done = task.apply(args=message.args, throw=True, routing_key=message.queue).result
        except Killed:
            return
        except failures.RunFailed as error:
            if not DELETED_BEFORE_READ.match(str(error)):
                self.failures.append(f"{message}: {error!r}")
            return
        finally:
            self._killable.left = None
        if _is_wrong(message, done):
            self.failures.append(f"{message}: {done}")

    def maybe_die(self) -> None:
        """Die if it is time. Called wherever a process may die."""
        left = getattr(self._killable, "left", None)
        if left is None:
            return
        if left == 0:
            raise Killed
        self._killable.left = left - 1

    # ---- what the machine asks for

    def settle(self) -> None:
        """Work until nothing is open and nothing is left to do. Fails if a task is stuck."""
        idle = handled = 0
        while self.is_open() or self.inbox:
            if self.work(self.parallel):
                handled += 1
                idle = 0
                assert handled < MAX_MESSAGES, f"it goes on and on: {self.inbox} {self._open()}"
            else:
                idle += 1
                assert idle < IDLE, f"open for good: {self._open()}"
                self.rest(PAUSE)
                self.sweep()
        assert not self.failures, self.failures

    def outlive(self) -> None:
        """Wait until late writes are impossible, and all that follows is done."""
        losses, self.losses = self.losses, 0.0
        deaths, self.deaths = self.deaths, 0.0
        for _ in range(2):
            self.rest(7_200)
            while self._due():
                self.sweep()
            self.settle()
        self.losses, self.deaths = losses, deaths

    def is_open(self) -> bool:
        """Whether a task is open, or a change waits for one."""
        return bool(self._open()) or bool(self.rows("SELECT FROM search_index_change WHERE due_at IS NOT NULL LIMIT 1"))

    def _open(self) -> list[tuple[Any, ...]]:
        return self.rows(
            """
            SELECT t.id, t.kind, t.status, t.listing, t.warning, t.total_files, t.indexed_files, (
                SELECT array_agg(DISTINCT concat_ws(' ', f.status, f.work)) FROM search_index_file f
                WHERE f.index_id = t.index_id)
            FROM search_index_task t WHERE t.status IN ('pending', 'indexing')
            """
        )

    def _due(self) -> bool:
        due = """
            SELECT FROM chunk_tombstone WHERE created_at < now() - interval '1 h'
            UNION ALL SELECT FROM search_index WHERE deleted_at < now() - interval '1 h'
            """
        return bool(self.rows(due))


def _is_wrong(message: Message, done: dict[str, Any]) -> bool:
    """Whether a task met an internal error, which it only logs, or the sweep had to report a stall."""
    if message.name == "foldex.sweep":
        return bool(done.get("stalled")) or (
            "skipped" not in done and any(isinstance(one, str) for one in done.values())
        )
    return done.get("waiting") == "memory"


def _shifts(connection: psycopg.Connection[Any]) -> Iterator[Any]:
    """For each table, a statement that moves its times into the past."""
    found = connection.execute(
        """
        SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
        JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = current_schema() AND data_type = 'timestamp with time zone' AND table_type = 'BASE TABLE'
        GROUP BY table_name
        """
    ).fetchall()
    for table, columns in found:
        if table not in TIMELESS and not table.startswith(("_yoyo", "yoyo")):
            moved = [SQL("{0} = {0} - make_interval(secs => %(seconds)s)").format(Identifier(name)) for name in columns]
            yield SQL("UPDATE {} SET {}").format(Identifier(table), SQL(", ").join(moved))


class Killable:
    """A wrapper whose every call may kill the process, before or after the call is done."""

    def __init__(self, part: Any, maybe_die: Callable[[], None]) -> None:
        self._part, self._maybe_die = part, maybe_die

    @property  # type: ignore[misc] # as a mock does, for `isinstance`
    def __class__(self) -> type[Any]:
        return type(self._part)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return found

        def called(*args: Any, **options: Any) -> Any:
            self._maybe_die()
            result = found(*args, **options)
            self._maybe_die()
            return result

        return called


class KillableResources(Resources):
    """Resources of a worker that may die at any call."""

    maybe_die: Callable[[], None] = staticmethod(lambda: None)

    def source(self, *args: Any, **options: Any) -> Any:
        return Killable(super().source(*args, **options), self.maybe_die)

    def store(self, *args: Any, **options: Any) -> Any:
        return Killable(super().store(*args, **options), self.maybe_die)

    def embedder(self, *args: Any, **options: Any) -> Any:
        return Killable(super().embedder(*args, **options), self.maybe_die)


@contextmanager
def in_process(env: Mapping[str, str], by: random.Random, sizes: Sizes, **options: Any) -> Iterator[InProcess]:
    """Foldex with these settings and thresholds."""
    settings = Settings.model_validate({name.lower(): value for name, value in env.items() if value})
    resources = KillableResources(settings, pool_size=10)
    api = create_app(settings)
    with pytest.MonkeyPatch.context() as patch, closing(resources.pool), closing(api.state.resources.pool):
        client: Any = TestClient(api, "http://127.0.0.1", client=("127.0.0.1", 1))
        made = InProcess(client, resources, by, **options)
        resources.maybe_die = made.maybe_die
        sizes.apply(patch)
        for queue in limits.SLICE_SECONDS:
            patch.setitem(limits.SLICE_SECONDS, queue, limits.SLICE_SECONDS[queue])
        patch.setattr(process, "resources", lambda: resources)
        patch.setattr(app.app, "send_task", made.send)
        for module in (app, open_tasks):
            patch.setattr(module, "count_queued", made.queued)
        yield made
        with suppress(IndexError):
            while True:
                made.inbox.pop()
