"""Starts Python programs as forks of `api.stack.fork_server`, which has imported what they share (Linux only)."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from api.stack import processes
from api.stack.children import ForkedChild
from api.stack.processes import Process, Program, StackError

#: Seconds until the first program reports: the server imports everything before.
FIRST_FORK_SECONDS = 60.0
#: Seconds until any other program reports.
FORK_SECONDS = 10.0
#: The byte after which a program begins.
GO = b"."
#: Maximum bytes of a request, which holds an environment. Linux takes about 200,000 in one message.
MAX_REQUEST_BYTES = 150_000
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A program to fork. `arguments` are those of Python: `-m MODULE …` or `-c CODE …`."""

    name: str
    arguments: list[str]
    cwd: str
    env: dict[str, str]
    nice: int
    #: The process id of the caller, and the signal that the program gets when the caller ends.
    parent: int
    orphaned: int

    def encode(self) -> bytes:
        """The request as JSON."""
        return json.dumps(asdict(self)).encode()


class ForkServer:
    """A fork server and its socket. Programs that it cannot fork start by themselves.

    The thread that calls must outlive the server, as for any program.
    """

    def __init__(self, program: Program, home: Path) -> None:
        self._program = program
        self._home = home
        self._process: Process | None = None
        self._requests: socket.socket | None = None
        self._is_ready = False

    @property
    def process(self) -> Process | None:
        """The server's process, if it was started."""
        return self._process

    def start(self) -> None:
        """Let the server import everything, so that the first program need not wait."""
        if sys.platform != "linux":
            return
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(FORK_SECONDS)
        with theirs:
            self._process = processes.start(self._program, self._home, stdin=theirs.fileno())

    def fork(self, program: Program, log: int, lock: int) -> ForkedChild | None:
        """Start a program that writes to `log` and holds `lock`. Returns None if it must start by itself."""
        request = _request(program)
        if sys.platform != "linux" or request is None or len(request.encode()) > MAX_REQUEST_BYTES:
            return None
        try:
            return self._send(request, log, lock)
        except (OSError, StackError):
            # it may be frozen; the next program gets a new one
            self.stop()
            return None

    def _send(self, request: ForkRequest, log: int, lock: int) -> ForkedChild:
        if self._process is None or self._process.ended():
            self.stop()
            self.start()
        if self._requests is None:
            raise OSError("the fork server was stopped")
        _adopt(1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                socket.send_fds(self._requests, [request.encode()], [log, lock, theirs.fileno()])
            ours.settimeout(FORK_SECONDS if self._is_ready else FIRST_FORK_SECONDS)
            pid = ours.recv(32)
            if not pid:
                raise OSError("the fork server ended before its program began")
            ours.send(GO)
        self._is_ready = True
        return ForkedChild(int(pid))

    def stop(self) -> None:
        """End the server. Programs that it forked go on."""
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            processes.stop([self._process])
            _adopt(0)
        self._process = self._requests = None
        self._is_ready = False


def _adopt(on: int) -> None:
    """Become the parent of descendants whose parent ends, or, with 0, leave them to the system again."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)


def reap_adopted(own: Collection[int]) -> None:
    """Reap ended processes whose parent has ended too: a subreaper adopts them.

    `own` are the processes that others here wait for. So are all of this session, which are never reaped.
    """
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in own or os.getsid(found.si_pid) == os.getsid(0):
                return
            os.waitpid(found.si_pid, os.WNOHANG)


def _request(program: Program) -> ForkRequest | None:
    """The request for a program that is plain Python of this user, or None."""
    command, nice = list(program.command), 0
    if Path(command[0]).name == "nice":
        nice, command = int(command[2]), command[3:]
    if program.account or command[:2] != [sys.executable, "-u"] or command[2] not in {"-m", "-c"}:
        return None
    return ForkRequest(
        program.name, command[2:], str(program.cwd), dict(program.env), nice, os.getpid(), int(program.orphaned)
    )
