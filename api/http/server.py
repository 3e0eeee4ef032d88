"""The server of the API: uvicorn with time limits, in one process or in several that share a listening socket."""

from __future__ import annotations

import asyncio
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from socket import socket
from types import FrameType
from typing import NoReturn, TypeVar

import structlog
import uvicorn
from starlette.types import ASGIApp

from api.http.protocol import TimedProtocol
from worker.machine.parent import end_with

#: Seconds between two rounds of upkeep. The `Date` of answers is at most as old.
TICK_SECONDS = 1.0
#: Seconds before a process that was killed is replaced.
REPLACE_SECONDS = 1.0
#: Seconds for processes to end after they got a signal: more than uvicorn gives to open requests.
ENDING_SECONDS = 8.0
#: Seconds for which an idle connection is kept. Clients and proxies keep theirs for 5 to 60 s, and must close it first:
#: a request that the server's close crosses fails.
KEEP_ALIVE_SECONDS = 75
#: Files and connections that a process may have open. Connections of callers take at most half of them.
MAX_FILES = 4096
#: A round's number at which uvicorn renews the `Date` header: it does so in every tenth round.
_RENEWING = 0
#: Exit status of uvicorn, as a program, if it did not start.
_NOT_STARTED = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds, and how often in a row, that a process leaves a connection to another one with fewer. That one may hang.
LEAVE_SECONDS, MAX_LEFT = 0.002, 5
#: Seconds before a process that cannot accept connections tries again: all its files are open.
EXHAUSTED_SECONDS = 1.0
#: The number of connections of a process that has not started or has ended: no other leaves it any.
_AWAY = 2**32 - 1

_Connection = TypeVar("_Connection")

log = structlog.get_logger()


class SignalledServer(uvicorn.Server):
    """A server that wakes at a signal, and once a second for upkeep. Uvicorn itself wakes ten times a second."""

    _signalled: asyncio.Event | None = None

    async def main_loop(self) -> None:
        """See uvicorn. Ends once a signal asks for it."""
        self._loop, self._signalled = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(_RENEWING):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), TICK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        super().handle_exit(sig, frame)
        if self._signalled is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)


class _Counted(set[_Connection]):
    """Open connections, whose number is noted whenever it changes."""

    def __init__(self, note: Callable[[int], None]) -> None:
        super().__init__()
        self._note = note

    def add(self, connection: _Connection, /) -> None:
        """See `set`."""
        super().add(connection)
        self._note(len(self))

    def discard(self, connection: object, /) -> None:
        """See `set`."""
        super().discard(connection)
        self._note(len(self))


class SharingServer(SignalledServer):
    """One of several servers that accept from one socket, each in a process. The one with the fewest connections does.

    Uvicorn accepts all that wait, so that one process would have most clients of a burst, and answer these later.
    `counts` are the connections of all processes, in memory that they share; `place` is the index of this one.
    """

    def __init__(self, config: uvicorn.Config, counts: memoryview[int], place: int) -> None:
        super().__init__(config)
        self._counts, self._place, self._left = counts, place, 0
        self.server_state.connections = _Counted(partial(counts.__setitem__, place))

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup([])
        for listening in sockets or []:
            listening.setblocking(False)
            listening.listen(self.config.backlog)
            self._listen(listening)
        self._counts[self._place] = 0

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """See uvicorn."""
        for listening in sockets or []:
            asyncio.get_running_loop().remove_reader(listening)
        await super().shutdown(sockets)

    def _listen(self, listening: socket) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _pause(self, listening: socket, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(seconds, self._listen, listening)

    def _accept(self, listening: socket) -> None:
        """Accept one connection that waits, unless another process has fewer."""
        number = self._counts[self._place]
        if number > min(self._counts) and self._left < MAX_LEFT:
            self._left += 1
            self._pause(listening, LEAVE_SECONDS)
            return
        self._left = 0
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process was faster, or the client has left
        except OSError:
            log.warning("connections cannot be accepted", exc_info=True)
            self._pause(listening, EXHAUSTED_SECONDS)
            return
        self._counts[self._place] = number + 1
        accepted.setblocking(False)
        task = asyncio.create_task(self._connect(accepted))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    async def _connect(self, accepted: socket) -> None:
        loop, protocol = asyncio.get_running_loop(), self.config.http_protocol_class
        values = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        await loop.connect_accepted_socket(lambda: protocol(**values), accepted)


@dataclass(frozen=True, slots=True)
class Serving:
    """The application to serve, and its address. `make_app` is called once in each process that serves."""

    make_app: Callable[[], ASGIApp]
    host: str
    port: int

    def config(self, app: ASGIApp | str) -> uvicorn.Config:
        """Uvicorn's settings."""
        return uvicorn.Config(
            app,
            host=self.host,
            port=self.port,
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            # event streams may stay open for hours; their clients reconnect
            timeout_graceful_shutdown=5,
        )


def serve(serving: Serving, processes: int) -> NoReturn:
    """Serve until a signal arrives, by this process or by `processes` others; then exit.

    The others are forks, which share memory: no thread may run yet.
    """
    if processes > 1:
        _Family(serving, processes).keep()
    _serve(serving)
    _leave(0)


def _serve(
    serving: Serving,
    make_server: Callable[[uvicorn.Config], SignalledServer] = SignalledServer,
    sockets: list[socket] | None = None,
) -> None:
    _allow_files()
    server = make_server(serving.config(serving.make_app()))
    with suppress(KeyboardInterrupt):
        server.run(sockets)
    if not server.started:
        sys.exit(_NOT_STARTED)


def _allow_files() -> None:
    """Let this process open `MAX_FILES` if the system permits. Many systems begin with 1,024."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(most, MAX_FILES) if most != resource.RLIM_INFINITY else MAX_FILES
    if allowed > least != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def _leave(status: int) -> NoReturn:
    """Exit. All requests have ended, but a thread that waits for a hanging provider would keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class _Family:
    """Processes that accept connections from one socket. One that is killed is replaced."""

    def __init__(self, serving: Serving, processes: int) -> None:
        self._serving, self._processes = serving, processes
        self._listening = serving.config("made in each process").bind_socket()
        # forks inherit it anyway; a program that one of them starts would keep the port in use
        self._listening.set_inheritable(False)
        #: The place of each process in `_counts`, by its id.
        self._children: dict[int, int] = {}
        self._counts = memoryview(mmap.mmap(-1, 4 * processes)).cast("I")
        for place in range(processes):
            self._counts[place] = _AWAY
        self._is_ending = False

    def keep(self) -> NoReturn:
        """Keep the processes running until a signal arrives, or one of them gives up."""
        for each in _SIGNALS:
            signal.signal(each, self._end)
        signal.signal(signal.SIGALRM, self._kill)
        for _ in range(self._processes):
            self._begin()
        status = 0
        while not self._is_ending:
            pid, ended = os.wait()
            if pid not in self._children:
                # the first process of a container adopts orphans
                continue
            self._counts[self._children.pop(pid)] = _AWAY
            if self._is_ending:
                break
            if os.WIFEXITED(ended):
                # a process that exits by itself would not start the next time either
                status = os.waitstatus_to_exitcode(ended)
                self._end()
            else:
                log.warning("a process of the API was killed; another replaces it", killed=pid)
                time.sleep(REPLACE_SECONDS)
                self._begin()
        self._wait_for_all()
        sys.exit(status)

    def _begin(self) -> None:
        # otherwise a signal could arrive before the child is noted
        with _block_signals():
            if self._is_ending:
                return
            place = min({*range(self._processes)} - {*self._children.values()})
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                self._run(parent, place)
            self._children[pid] = place

    def _run(self, parent: int, place: int) -> NoReturn:
        for each in (*_SIGNALS, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        status = _NOT_STARTED
        try:
            end_with(parent, signal.SIGTERM)
            _serve(self._serving, partial(SharingServer, counts=self._counts, place=place), [self._listening])
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else _NOT_STARTED
        except BaseException:  # whatever it is, the code of the parent must not go on here
            log.exception("a process of the API does not start")
        finally:
            _leave(status)

    def _end(self, *_: object) -> None:
        if not self._is_ending:
            # `os.wait` goes on after a signal, and processes that all hang would never end it
            signal.setitimer(signal.ITIMER_REAL, ENDING_SECONDS)
        self._is_ending = True
        self._signal_all(signal.SIGTERM)

    def _kill(self, *_: object) -> None:
        self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait_for_all(self) -> None:
        while self._children:
            pid, _ = os.wait()
            self._children.pop(pid, None)


@contextmanager
def _block_signals() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
