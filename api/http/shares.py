"""Limits of concurrent calls in one process: for each kind in all, and for one project.

Everything in the API that bounds threads, processes, memory or connections is a row here. A call that gets no room in
time is refused: with 429 if its own project holds its share, else with 503.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from schemas.errors import EstimateBusy, FoldexError, ProjectBusy, SearchBusy, ServerBusy
from worker.machine.sharing.fair_threads import FairThreads
from worker.machine.sharing.slots import QueueFull, RecentOwners, Slots

#: Owner of calls whose project is not known.
UNNAMED = ""
#: Seconds that a call waits in all its queues together. It may then wait for a lock, and is answered within 10 s.
QUEUE_SECONDS = 3.0


@dataclass
class _Patience:
    """Seconds for which a call may still wait in queues."""

    left: float = QUEUE_SECONDS


#: Projects that called in any way, and addresses that called without a key.
_PROJECTS, _ADDRESSES = RecentOwners(), RecentOwners()
_patience: ContextVar[_Patience | None] = ContextVar("patience", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Count what the call at hand waits in its queues, whatever thread it waits in."""
    token = _patience.set(_Patience())
    try:
        yield
    finally:
        _patience.reset(token)


def _no_check() -> None:
    """Wait on."""


@dataclass(frozen=True)
class Share:
    """Room for things of a kind. Thread-safe.

    There are `total` at a time, `each` of them for one project, and only `beside` while other projects call, too. Of
    a project `queue` more wait, for at most `seconds`.
    """

    what: str
    total: int
    each: int
    beside: int
    queue: int = 64
    seconds: float = QUEUE_SECONDS
    #: The error if others hold the room.
    busy: type[FoldexError] = ServerBusy
    #: Who has a share.
    whose: str = "This project"
    #: Whether each holds one of the threads that serve calls.
    uses_threads: bool = False
    #: How long room stays empty beside other projects, as a multiple of the time for which its project held it.
    rest: float = field(default=0.0, kw_only=True)
    #: Owners that count as other projects if they called recently.
    callers: RecentOwners = field(default=_PROJECTS, kw_only=True)
    remedy: str = field(default="try again shortly", kw_only=True)

    @contextmanager
    def hold(self, owner: str, check: Callable[[], None] = _no_check) -> Iterator[None]:
        """Hold room for one. Meanwhile `check` is called, which may raise. Raises `ProjectBusy` or `busy`."""
        with ExitStack() as stack:
            with self._queueing() as seconds:
                deadline = time.monotonic() + seconds

                def still_waits() -> None:
                    check()
                    if time.monotonic() >= deadline:
                        raise self._refusal(owner)

                try:
                    stack.enter_context(self.slots.waiting(still_waits, owner))
                except QueueFull:
                    raise self._refusal(owner) from None
            yield

    @asynccontextmanager
    async def hold_by_call(self, owner: str) -> AsyncIterator[None]:
        """Do what `hold` does, in a coroutine."""
        async with AsyncExitStack() as stack:
            with self._queueing() as seconds:
                try:
                    await stack.enter_async_context(self.slots.of_call(seconds, owner))
                except (QueueFull, TimeoutError):
                    raise self._refusal(owner) from None
            yield

    @contextmanager
    def _queueing(self) -> Iterator[float]:
        """The seconds for which the call at hand may wait here. Its other queues lose the time that it waits."""
        patience, began = _patience.get() or _Patience(self.seconds), time.monotonic()
        try:
            yield min(self.seconds, patience.left)
        finally:
            patience.left -= time.monotonic() - began

    @cached_property
    def slots(self) -> Slots:
        """The slots of this process."""
        queues = {"queue": self.queue, "queue_of_all": 8 * self.queue}
        return Slots(self.total, self.each, beside=self.beside, **queues, rest=self.rest, recent=self.callers)

    def _refusal(self, owner: str) -> FoldexError:
        if self.slots.holds_share(owner):
            return ProjectBusy(f"{self.whose} already has its share of {self.what} in progress; {self.remedy}.")
        return self.busy(f"Too many {self.what} are in progress; {self.remedy}.")


#: Calls in progress, by kind. Each may hold one thread, except as said. A search may wait for a provider.
READS = Share("reading calls", 32, 12, 2, uses_threads=True)
WRITES = Share("changing calls", 24, 8, 2, uses_threads=True)
SEARCHES = Share("searches", 48, 24, 24, uses_threads=True)
GREPS = Share("greps", 12, 6, 2, uses_threads=True)
#: Each searches several tools side by side, in threads of its own.
ACROSS = Share("searches of several tools", 12, 6, 2, uses_threads=True)
UPLOADS = Share("uploads", 16, 6, 2, uses_threads=True, rest=0.5)
DOWNLOADS = Share("downloads", 32, 12, 12, uses_threads=True)
#: A stream asks for news twice a second, as a reading call of its own.
STREAMS = Share("event streams", 256, 64, 64, queue=0)
#: Each makes calls of its own, which count as such.
AGENTS = Share("calls of agents", 64, 24, 24)
#: Pages, readiness and metrics, for callers without a key. Their owner is an address.
PROBES = Share("calls without a key", 12, 6, 6, whose="This address", uses_threads=True, callers=_ADDRESSES)
#: Keys that are looked up. Their owner is a project whose key was valid before, else an address.
KEYS = Share("keys to look up", 8, 3, 3, whose="This address", uses_threads=True, callers=_ADDRESSES)

#: Steps that compute in Python. All threads share one interpreter, whose time is divided by thread: one thread of each
#: project at a time shares it fairly. Of one project alone, two use the time in which numpy and Postgres work; a third
#: makes each search cost a tenth more, as they take the interpreter from each other.
COMPUTING = Share("searches that compute", 4, 2, 1)
#: Greps that read. One of them holds a connection, or a process that uses all processors.
READING_GREPS = Share("greps that read", 8, 4, 1, rest=0.5)
#: An estimate lists a folder, and takes up to half a minute.
ESTIMATES = Share("estimates", 3, 2, 1, queue=4, busy=EstimateBusy, rest=0.5)
#: An answer of 10,000 hits takes about 100 MB until it is serialized.
LARGE_ANSWERS = Share(
    "answers of over 1,000 hits", 2, 1, 1, queue=8, busy=SearchBusy, remedy="try again, or lower top_k", rest=1.5
)

#: A text of 10 MB takes up to 80 MB until it is serialized, or stored for its reader.
LARGE_TEXTS = Share("large texts", 3, 2, 1)

#: Threads for keyword legs in Postgres. Fewer than the pool has connections, which leaves some to other requests.
KEYWORD_THREADS = FairThreads("keywords", 16, 8)
#: Threads that search the tools of one request side by side.
ACROSS_THREADS = FairThreads("across", 64, 32)

#: The owner of the room in `COMPUTING` that the thread at hand holds.
_computing: ContextVar[str | None] = ContextVar("computing", default=None)


@contextmanager
def computing(owner: str, check: Callable[[], None] = _no_check) -> Iterator[None]:
    """Hold room to compute, as `Share.hold` does."""
    with COMPUTING.hold(owner, check):
        token = _computing.set(owner)
        try:
            yield
        finally:
            _computing.reset(token)


def elsewhere() -> AbstractContextManager[None]:
    """Leave the room to others while the thread at hand waits for another machine."""
    owner = _computing.get()
    return nullcontext() if owner is None else COMPUTING.slots.lend(owner)


SHARES: Sequence[Share] = [each for each in vars().values() if isinstance(each, Share)]
THREADS: Sequence[FairThreads] = [each for each in vars().values() if isinstance(each, FairThreads)]

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_POST = frozenset({"POST"})
_TOOL = "/api/tools/search/[^/]+"
#: The kind of each call, by method (None: any) and path. The first row that fits counts.
CALLS: Sequence[tuple[frozenset[str] | None, re.Pattern[str], Share]] = [
    (methods, re.compile(pattern, re.DOTALL), share)
    for methods, pattern, share in (
        (None, r"(?!/api/|/v1/|/mcp)", PROBES),
        (None, "/mcp", AGENTS),
        (_POST, f"{_TOOL}/query$", SEARCHES),
        (_POST, f"{_TOOL}/grep$", GREPS),
        (_POST, "/api/search$", ACROSS),
        (_POST, "/api/projects/[^/]+/uploads$", UPLOADS),
        (_READING, "/api/projects/[^/]+/nodes/[^/]+/content$", DOWNLOADS),
        (_READING, f"{_TOOL}/events$", STREAMS),
        (_READING, "", READS),
        (None, "", WRITES),
    )
]
