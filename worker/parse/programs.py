"""Runs the programs of this machine that convert documents and read pictures.

A process that is confined for good may not start programs. So another one does, the starter: a fork made before that,
with no other handles than the two pipes to the process it serves. When that process ends, however it does, the starter
ends the program that it runs.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from shutil import which
from typing import BinaryIO, NoReturn

import orjson

from worker.machine.parent import end_with

#: Maximum bytes of a request or an answer.
_MAX_MESSAGE_BYTES = 1 << 16
#: The office suite reserves far more address space than it uses.
OFFICE_MEMORY_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Job:
    """A program with its arguments, run for at most `seconds` on the clock.

    Its output goes to the file `output`. It has the limits of the process that starts it, unless its own are narrower.
    """

    command: tuple[str, ...]
    seconds: float
    output: str = os.devnull
    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program: its exit code, minus the signal that ended it, or None if its time was up."""

    code: int | None
    cpu_seconds: float


class NotStartedError(OSError):
    """Raised if the system did not start the program."""


@dataclass(slots=True)
class _Starter:
    """The pipes to the starter, which only `pid` may use, and the processor time of its programs so far."""

    pid: int
    requests: BinaryIO
    answers: BinaryIO
    cpu_seconds: float = 0.0


_starter: _Starter | None = None


def run(job: Job) -> Ended:
    """Run a program to its end. One at a time, so from one thread only. Raises `NotStartedError`."""
    starter = _running()
    program, *arguments = job.command
    job = replace(job, command=(which(program) or program, *arguments))
    starter.requests.write(orjson.dumps(job) + b"\n")
    starter.requests.flush()
    answer = starter.answers.readline(_MAX_MESSAGE_BYTES)
    if not answer:
        # another process reads the file with a starter of its own
        raise SystemExit("the process that starts programs is gone")
    if (fields := orjson.loads(answer)) is None:
        raise NotStartedError(f"the system does not start {job.command[0]}")
    ended = Ended(**fields)
    starter.cpu_seconds += ended.cpu_seconds
    return ended


def cpu_seconds() -> float:
    """Processor time in seconds of all programs that this process has run."""
    return _starter.cpu_seconds if _starter and _starter.pid == os.getpid() else 0.0


def start(confine: Callable[[], object] = bool, confine_program: Callable[[], object] = bool) -> None:
    """Fork the starter, which confines itself and each program by these functions.

    This process must have one thread.
    """
    global _starter  # noqa: PLW0603 - one for each process
    (wanted, ask), (answered, answer) = os.pipe(), os.pipe()
    if not os.fork():
        _serve(wanted, answer, confine, confine_program)
    os.close(wanted)
    os.close(answer)
    _starter = _Starter(os.getpid(), os.fdopen(ask, "wb"), os.fdopen(answered, "rb"))


def _running() -> _Starter:
    if _starter is None or _starter.pid != os.getpid():
        start()
    assert _starter is not None  # noqa: S101 - `start` made it
    return _starter


def _serve(wanted: int, answer: int, confine: Callable[[], object], confine_program: Callable[[], object]) -> NoReturn:
    """Run requested programs until the other process closes its pipes."""
    try:
        # a signal to the group of the other process must not end this one before it ended its program
        os.setpgid(0, 0)
        _keep_only(wanted, answer)
        # a child that ends wakes `poll`
        ended, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        confine()
        with os.fdopen(os.dup(0), "rb", 0) as requests:
            while line := requests.readline(_MAX_MESSAGE_BYTES):
                request = orjson.loads(line)
                job = Job(**{**request, "command": tuple(request["command"])})
                result: Ended | None = None
                with suppress(OSError, subprocess.SubprocessError):
                    result = _result(job, ended, confine_program)
                os.write(1, orjson.dumps(result) + b"\n")
    finally:
        os._exit(0)


def _keep_only(wanted: int, answer: int) -> None:
    """Make the two pipes this process's input and output, and close everything else."""
    os.dup2(os.dup(wanted), 0)
    os.dup2(answer, 1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 2)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _result(job: Job, ended: int, confine: Callable[[], object]) -> Ended:
    starter = os.getpid()
    with open(job.output, "wb") as output:  # noqa: PTH123 - a string
        process = subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            # killed alone, the office suite's launcher leaves a child behind
            process_group=0,
            preexec_fn=lambda: _confine(job, starter, confine),  # noqa: PLW1509 - this process has one thread
        )
    deadline = time.monotonic() + job.seconds
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            # its leftover processes end with it
            _kill(process.pid)
            return Ended(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)
        if time.monotonic() >= deadline:
            break
        _wait(ended, process.pid, deadline)
    _kill(process.pid)
    usage = os.wait4(process.pid, 0)[2]
    return Ended(None, usage.ru_utime + usage.ru_stime)


def _wait(ended: int, group: int, deadline: float) -> None:
    """Wait until a child ends, or the deadline. End the program and this process if the other process is gone."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(ended, select.POLLIN)
    ready = [handle for handle, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)]
    if ended in ready:
        os.read(ended, _MAX_MESSAGE_BYTES)
    # no request comes before the answer to the last one
    if 0 in ready:
        _kill(group)
        os._exit(0)


def _kill(group: int) -> None:
    # systems raise one or the other for processes that have ended
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _confine(job: Job, starter: int, confine: Callable[[], object]) -> None:
    end_with(starter, signal.SIGKILL)
    # a program that continues after the first limit of its processor time is killed at the second
    for name, value, grace in (
        (resource.RLIMIT_FSIZE, job.file_bytes, 0),
        (resource.RLIMIT_CPU, job.cpu_seconds, 1),
        (resource.RLIMIT_AS, job.memory_bytes, 0),
    ):
        if value is not None:
            _, allowed = resource.getrlimit(name)
            hard = value + grace if allowed == resource.RLIM_INFINITY else min(value + grace, allowed)
            with suppress(ValueError, OSError):  # not every system supports a limit on the address space
                resource.setrlimit(name, (min(value, hard), hard))
    confine()
