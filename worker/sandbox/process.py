"""One running helper process: its start, requests and end."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

import orjson

from worker.machine.niceness import share_with_session
from worker.machine.scratch import Scratch
from worker.sandbox.protocol import ANSWER, PROGRAM, REQUEST, Answer, Bounds

#: The directory that holds the packages.
_ROOT = Path(__file__).resolve().parents[2]
#: Wall-clock seconds allowed for starting the helper and for its pipes, which take no processor time.
PIPE_SECONDS = 5.0
#: Maximum bytes of one read or write of a pipe.
_PIPE_CHUNK_BYTES = 1 << 20
#: Environment variables passed on. The file's reader must not see the others, which include keys.
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TESSDATA_PREFIX")
#: Bytes of freed memory that the C library keeps, and of a block that it returns at once. By default it returns the
#: memory of a PDF's page and takes it again for the next one, which takes up to a quarter of the time.
_KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(16 << 20)}
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"), "1")

Value = TypeVar("Value")


class DiedError(Exception):
    """Raised when the helper ended without an answer, or its answer is malformed."""


class LateError(Exception):
    """Raised when the helper did not answer in time."""


@dataclass
class HelperProcess:
    """A running helper; `used` once it has read a file, whose leftovers might affect the next.

    `inherited` are bytes of memory that the system counts for the helper although they were this process's. The helper
    may write only to `scratch`. It keeps the containers with the names in `kept` open.
    """

    process: subprocess.Popen[bytes]
    scratch: Scratch
    memory_bytes: int
    inherited: int
    used: bool = False
    kept: frozenset[str] = field(default_factory=frozenset)

    def ask(self, request: Sequence[bytes], bounds: Bounds) -> Answer:
        """Send a request and return its answer. Raises `DiedError` or `LateError`."""
        deadline = time.monotonic() + seconds_of(bounds)
        for part in request:
            _write(_open(self.process.stdin).fileno(), part, deadline)
        source = _open(self.process.stdout).fileno()
        head_bytes, payload_bytes = ANSWER.unpack(_read(source, ANSWER.size, deadline))
        if head_bytes > bounds.max_head_bytes or payload_bytes > bounds.payload_bytes:
            raise DiedError
        try:
            head = orjson.loads(_read(source, head_bytes, deadline))
        except orjson.JSONDecodeError:
            raise DiedError from None
        if not isinstance(head, dict):
            raise DiedError
        return Answer(head, _read(source, payload_bytes, deadline))

    def end(self) -> tuple[int, int]:
        """End the helper and its children; return its exit code and its peak memory in bytes."""
        code, peak = _reap(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            _open(pipe).close()
        self.scratch.remove()
        return code, peak

    def leave(self) -> None:
        """Leave the helper to the other process, which a fork made its parent."""
        self.process.returncode = 0
        for pipe in (self.process.stdin, self.process.stdout):
            _open(pipe).close()
        self.scratch.leave()

    def clear(self) -> None:
        """Remove a file's leftovers from the disk."""
        with suppress(OSError):
            for entry in os.scandir(self.scratch.path):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - a string


def start(memory_bytes: int, niceness: int = 0) -> HelperProcess:
    """Start a helper with this much memory and `niceness` more than this process's."""
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    scratch = Scratch()
    process = _in_lasting_thread(
        lambda: subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(os.getpid()), str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={**environment, **_ONE_THREAD, **_KEPT_MEMORY, "TMPDIR": str(scratch.path)},
            bufsize=0,
            # its own children end with it
            start_new_session=True,
        )
    )
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + niceness)
    share_with_session(process.pid)
    for pipe in (process.stdin, process.stdout):
        os.set_blocking(_open(pipe).fileno(), False)
    return HelperProcess(process, scratch, memory_bytes, _peak_of(resource.getrusage(resource.RUSAGE_SELF)))


def packed(head: bytes, data: bytes) -> tuple[bytes, ...]:
    """Return a request in the pieces in which it is written."""
    start = REQUEST.pack(len(head), len(data)) + head
    # one write for small requests, no copy of large data
    return (start + data,) if len(data) < _PIPE_CHUNK_BYTES else (start, data)


def seconds_of(bounds: Bounds) -> float:
    """Return the wall-clock seconds for one attempt. A busy helper reaches its processor time limit first."""
    return bounds.patience * bounds.seconds + PIPE_SECONDS


def _in_lasting_thread(act: Callable[[], Value]) -> Value:
    """Run `act` in a thread that lives as long as this process: the system ends a helper with its thread."""
    if threading.current_thread() is threading.main_thread():
        return act()
    return _starter.submit(act).result()


_starter = ThreadPoolExecutor(1, thread_name_prefix="foldex-helpers")


def _renew_starter() -> None:
    """After a fork the thread is gone."""
    global _starter  # noqa: PLW0603 - one per process
    _starter = ThreadPoolExecutor(1, thread_name_prefix="foldex-helpers")


os.register_at_fork(after_in_child=_renew_starter)


def _reap(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    if process.returncode is not None:
        return process.returncode, 0
    with suppress(ProcessLookupError):
        # the helper is at least a zombie, so its group id is not reused yet
        os.killpg(process.pid, signal.SIGKILL)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # other code in this process reaps every child
        process.returncode = 0
        return 0, 0
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, _peak_of(usage)


def _peak_of(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss << 10


def _write(handle: int, data: bytes, deadline: float) -> None:
    unsent = memoryview(data)
    while unsent:
        _wait(handle, select.POLLOUT, deadline)
        try:
            unsent = unsent[os.write(handle, unsent[:_PIPE_CHUNK_BYTES]) :]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            raise DiedError from None


def _read(handle: int, length: int, deadline: float) -> bytearray:
    data = bytearray(length)
    unfilled = memoryview(data)
    while unfilled:
        _wait(handle, select.POLLIN, deadline)
        count = os.readv(handle, [unfilled[:_PIPE_CHUNK_BYTES]])
        if not count:
            raise DiedError
        unfilled = unfilled[count:]
    return data


def _wait(handle: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(handle, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise LateError


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # pragma: no cover - both are pipes, which the types do not express
        raise DiedError
    return pipe
