"""The helper process: reads the files it is sent, one at a time, and dies with its parent.

`worker.sandbox.protocol` describes the messages. The process has no settings, no database and no network.
`worker.parse.sandbox.confine` confines its libraries.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, BinaryIO

import orjson

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats import unsupported
from worker.formats.registry import BY_TYPE, PACKAGE, import_function
from worker.machine.parent import end_with
from worker.parse import programs
from worker.parse.limits import Limits
from worker.parse.sandbox.confine import OFFICE, confine
from worker.parse.sandbox.read import read
from worker.parse.sandbox.seccomp import parser_calls, program_calls, restrict, starter_calls
from worker.sandbox.protocol import ANSWER, REQUEST, Head

if TYPE_CHECKING:
    from worker.parse.code.syntax import Syntax

#: Operations besides documents and syntax. A function gets the head of the request, its data and the limits, and
#: returns the answer and its payload.
OPERATIONS = {
    "members": "worker.parse.containers.opened:members",
    "member": "worker.parse.containers.opened:member",
    "texts": "worker.parse.given:texts",
    "value": "worker.parse.given:value",
    "sample": "worker.parse.sandbox.sample:sample",
    "json": "worker.parse.given:json_text",
    "secret": "worker.parse.given:secret",
    "picture": "worker.parse.pdf.picture:picture",
}
#: The key of an answer's payload in its head.
_PAYLOAD = "payload"
#: Seconds of processor time allowed between two files.
_IDLE_CPU_SECONDS = 60.0
#: A failure is attributed to lack of memory if more than this share of the address space was used.
_OUT_OF_MEMORY_SHARE = 0.7


def main(parent: int, memory_bytes: int) -> None:
    """Serve until the parent closes the pipe. Ends early if the parent is gone or too much memory is held."""
    _status_file()
    names = {name for format_ in BY_TYPE.values() for name in format_.programs}
    confine(tempfile.gettempdir(), memory_bytes, names)
    if installed := unsupported.programs(tuple(names)):
        has_office = any(name in OFFICE for name in installed)
        programs.start(
            partial(_confine_starter, programs.OFFICE_MEMORY_FACTOR * memory_bytes, has_office),
            lambda: restrict(program_calls(office=has_office)),
        )
    # after the change of credentials, which may undo it
    end_with(parent, signal.SIGKILL)
    _limit_memory(memory_bytes)
    restrict(parser_calls())
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        # libraries that print or read input must not reach the pipes
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        last = False
        while not last and (lengths := requests.read(REQUEST.size)):
            answer = _answer(requests, memory_bytes, *REQUEST.unpack(lengths))
            last = answer["last"] = "memory" in answer or _uses_much_memory(memory_bytes)
            _limit_cpu_seconds(_IDLE_CPU_SECONDS)
            _send(answers, answer)


def _confine_starter(memory_bytes: int, has_office: bool) -> None:
    _limit_memory(memory_bytes)
    restrict(starter_calls(office=has_office))


def _limit_memory(memory_bytes: int) -> None:
    with suppress(ValueError, OSError):  # not every system supports a limit on the address space
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _answer(requests: BinaryIO, memory_bytes: int, head_bytes: int, data_bytes: int) -> Head:
    """Return the document, the reason why there is none, or that memory ran out."""
    try:
        head = orjson.loads(requests.read(head_bytes))
        limits = Limits(**head["limits"])
        if "language" in head:
            return {"syntax": _syntax(requests.read(data_bytes), head["language"], limits.seconds)}
        if "operation" in head:
            return _carry_out(head, requests.read(data_bytes), limits)
        _limit_cpu_seconds(limits.seconds)
        format_ = PACKAGE if head["type"] == PACKAGE.type else BY_TYPE[head["type"]]
        return {"document": read(format_, requests.read(data_bytes), limits)}
    except FileError as failure:
        if failure.reason is Reason.PARSE_FAILED and _status("VmPeak") > memory_bytes * _OUT_OF_MEMORY_SHARE:
            # libraries seldom report a failed allocation as such
            return {"memory": True}
        return {"reason": failure.reason, "message": failure.message}
    except MemoryError:
        return {"memory": True}


def _carry_out(head: Head, data: bytes, limits: Limits) -> Head:
    """Run an operation and return its answer."""
    operation = import_function(OPERATIONS[head["operation"]])
    with _limit(limits.seconds):
        answer, payload = operation(head, data, limits)
    return {**answer, _PAYLOAD: payload}


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Let `SIGPROF` end this process after `seconds` of processor time: `RLIMIT_CPU` counts whole seconds."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _syntax(data: bytes, language: str, seconds: float) -> Syntax | None:
    """Return the syntax of source code."""
    from worker.parse.code.grammar import grammar
    from worker.parse.code.syntax import syntax

    # loading a grammar takes longer than most files, and only the first file of a language pays for it
    grammar(language)
    with _limit(seconds):
        return syntax(data, language)


def _send(answers: BinaryIO, answer: Head) -> None:
    try:
        payload = answer.pop(_PAYLOAD, b"")
        if "document" in answer:
            document: Document = answer["document"]
            payload = document.text.encode()
            answer["document"] = replace(document, text="")
        head = orjson.dumps(answer)
    except MemoryError:
        head, payload = orjson.dumps({"memory": True, "last": True}), b""
    # one write if there is no payload: each write may wake the parent
    answers.write(ANSWER.pack(len(head), len(payload)) + head)
    answers.write(payload)
    answers.flush()


def _limit_cpu_seconds(seconds: float) -> None:
    """Let the system end this process after `seconds` more of processor time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(usage.ru_utime + usage.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def _uses_much_memory(memory_bytes: int) -> bool:
    """Return whether this process has held more than half of its memory."""
    # `ru_maxrss` includes the parent's memory, so it is never too low, and it is cheap to read
    counted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return counted > memory_bytes // 2 and _status("VmHWM") > memory_bytes // 2


def _status(name: str) -> int:
    """Peak bytes of memory (`VmHWM`) or address space (`VmPeak`); 0 if the system does not report them.

    `ru_maxrss` would start at the parent's value.
    """
    handle = _status_file()
    lines = os.pread(handle, 1 << 16, 0).decode().splitlines() if handle is not None else []
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), 0)


@cache
def _status_file() -> int | None:
    """Return the system's status file of this process, opened before confinement forbids it."""
    try:
        return os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
