"""The server of the API: uvicorn with time limits, in one process or in several that share a listening socket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import socket
from types import FrameType
from typing import Any, ClassVar, NoReturn

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from api.http import problems, request_log
from worker.machine.parent import end_with

#: Seconds between two rounds of upkeep. The `Date` of answers is at most as old.
TICK_SECONDS = 1.0
#: Seconds before a process that was killed is replaced.
REPLACE_SECONDS = 1.0
#: Seconds for processes to end once they are told to, more than uvicorn gives to open requests.
ENDING_SECONDS = 8.0
#: Seconds within which a request's headers must arrive.
HEADER_SECONDS = 20.0
#: Seconds for which an idle connection is kept. Clients and proxies keep theirs for 5 to 60 s, and must close it first:
#: a request that the server's close crosses fails.
KEEP_ALIVE_SECONDS = 75
#: Seconds within which a slow client must read `STALLED_BYTES` of its answer, or the rest of it.
STALLED_SECONDS = 20.0
STALLED_BYTES = 1 << 16
#: Bytes of answers that a process buffers for slow clients. Above them the client that is slow for longest is dropped.
MAX_UNSENT_BYTES = 256 << 20
#: A number of a round in which uvicorn renews the `Date` header. It does so in every tenth round.
_RENEWING = 0
#: Exit status of uvicorn, as a program, if it did not start.
_NOT_STARTED = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

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


class TimedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with timeouts for clients that never complete headers or never read answers.

    Uvicorn itself waits forever and keeps the unsent bytes in memory.
    """

    #: Connections of slow clients, slow for longest first, and their unsent bytes at the last check.
    _behind: ClassVar[dict[TimedProtocol, int]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._stop_waiting()
        self._caught_up()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with a problem; uvicorn's own text names no reason."""
        error = sys.exception()
        # the parser hides an error of a callback behind one of its own
        answer = problems.not_http(str((error and error.__context__) or error or msg))
        answer.headers.update(request_log.unread(answer.status_code))
        head = [STATUS_LINE[answer.status_code], *(b"%b: %b\r\n" % each for each in answer.raw_headers)]
        self.transport.write(b"".join([*head, b"connection: close\r\n\r\n", answer.body]))
        self.transport.close()

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._behind[self] = self.transport.get_write_buffer_size()
        self._next_look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)
        # aborting a transport may pause another one, so iterate over a copy
        for protocol in list(self._behind):
            if sum(other.transport.get_write_buffer_size() for other in self._behind) <= MAX_UNSENT_BYTES:
                break
            protocol.drop()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._caught_up()
        super().resume_writing()

    def drop(self) -> None:
        """Close the connection without sending the rest."""
        self._caught_up()
        self.transport.abort()

    def _look_at_reader(self) -> None:
        unsent_before, unsent = self._behind[self], self.transport.get_write_buffer_size()
        if unsent_before - unsent < STALLED_BYTES:
            self.drop()
            return
        self._behind[self] = unsent
        self._next_look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)

    def _caught_up(self) -> None:
        self._behind.pop(self, None)
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def on_message_begin(self) -> None:
        """See httptools."""
        super().on_message_begin()
        if self._deadline is None:
            self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._stop_waiting()
        if self.parser.should_upgrade() and _has_body(self.headers):
            # the parser takes the body for another protocol's
            raise ValueError("a request with a body cannot change the protocol; let the client use HTTP/1.1 only")
        super().on_headers_complete()

    def _should_upgrade_to_ws(self) -> bool:
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a client that asks for another protocol is answered in this one, as many expect."""

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve and where. `make_app` is called once in each process that serves."""

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


def _serve(serving: Serving, listening: socket | None = None) -> None:
    server = SignalledServer(serving.config(serving.make_app()))
    with suppress(KeyboardInterrupt):
        server.run(None if listening is None else [listening])
    if not server.started:
        sys.exit(_NOT_STARTED)


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
        self._children: set[int] = set()
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
            self._children.discard(pid)
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
        # a signal in between would reach a child that is not noted yet
        with _blocked():
            if self._is_ending:
                return
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                self._run(parent)
            self._children.add(pid)

    def _run(self, parent: int) -> NoReturn:
        for each in (*_SIGNALS, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        status = _NOT_STARTED
        try:
            end_with(parent, signal.SIGTERM)
            _serve(self._serving, self._listening)
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
            self._children.discard(pid)


@contextmanager
def _blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
