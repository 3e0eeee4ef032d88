"""Reads files in a helper process, so that the worker survives libraries that crash, hang or use excessive memory.

The helper is a plain subprocess, because children of Celery's pool are daemonic and may not have `multiprocessing`
children. It is kept for many files. One that dies or uses too much is replaced.
"""

from __future__ import annotations

import atexit
import compileall
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any

import orjson

from schemas.content.document import Document, DocumentProperties
from schemas.errors import FileError
from schemas.status import Reason
from worker.formats.registry import Format
from worker.machine.scratch import Scratch
from worker.parse.limits import BUSY, Limits, too_large
from worker.parse.sandbox import confine
from worker.parse.sandbox.child import ANSWER, REQUEST
from worker.tokens import MAX_CHARACTER_BYTES

if TYPE_CHECKING:
    from worker.parse.code.syntax import Syntax

ATTEMPTS = 3
#: Wall-clock seconds allowed for starting the helper and for its pipes, which take no processor time.
_PIPE_SECONDS = 5.0
#: Maximum bytes of an answer's JSON, which excludes the text.
_MAX_HEAD_BYTES = 64 << 20
#: Maximum bytes of one read or write of a pipe.
_PIPE_CHUNK_BYTES = 1 << 20
#: Exit codes of a helper that the system ended because its processor time was up.
_TIMEOUT_EXIT_CODES = (-signal.SIGXCPU, -signal.SIGPROF)
#: Message for a file whose library ended the helper on purpose. Another attempt would end in the same way.
_ABORTED = "The file is damaged (its library gives up on it); repair or convert it."
#: Environment variables passed on. The file's reader must not see the others, which include keys.
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TESSDATA_PREFIX")
#: Bytes of freed memory that the C library keeps, and of a piece that it gives back at once. By itself it gives the
#: memory of a PDF's page back and takes it again for the next one, which takes up to a quarter of the time.
_KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(16 << 20)}
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"), "1")


class _DiedError(Exception):
    """The helper ended without an answer."""


class _LateError(Exception):
    """The helper did not answer in time."""


@dataclass
class _Helper:
    """A running helper; `used` once it has read a file, whose leftovers might affect the next.

    `inherited` are bytes of memory that the system counts for the helper although they were this process's. The helper
    may write only to `scratch`.
    """

    process: subprocess.Popen[bytes]
    scratch: Scratch
    memory_bytes: int
    inherited: int
    used: bool = False


_lock = Lock()
_helper: _Helper | None = None


def read(format_: Format, data: bytes, limits: Limits) -> Document:
    """The document in `data`. Raises `FileError` as the format's reader does, and `crashed` or `too_large`."""
    request = _request({"type": format_.type, "limits": limits}, data)
    with _lock, _cleared():
        for _ in range(ATTEMPTS):
            answer = _attempt(request, limits)
            if answer is not None:
                return _document(answer)
    raise FileError(Reason.CRASHED)


def syntax(data: bytes, language: str, limits: Limits) -> Syntax | None:
    """The syntax of UTF-8 source code; None if there is none, or if it exceeds the limits."""
    request = _request({"language": language, "limits": limits}, data)
    with _lock, suppress(FileError):
        # retry once: the helper may have died because of an earlier file
        answer = _attempt(request, limits) or _attempt(request, limits)
        columns: Syntax | None = answer.get("syntax") if answer else None
        return columns
    return None


def max_seconds(limits: Limits) -> float:
    """Maximum wall-clock seconds until `read` gives up, over all attempts."""
    return ATTEMPTS * _attempt_seconds(limits) + _PIPE_SECONDS


def prepare() -> str:
    """Compile what helpers import, as helpers cannot write. Returns the measures that the system refused."""
    if not sys.dont_write_bytecode:
        compileall.compile_dir(Path(__file__).parent, quiet=2)
    command = [sys.executable, "-I", "-S", confine.__file__]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def stop(*, wait: bool = True) -> None:
    """End the helper; the next file starts another. Without `wait`, a helper in use by a thread is left alone."""
    if _lock.acquire(blocking=wait):
        try:
            _end()
        finally:
            _lock.release()


@contextmanager
def _cleared() -> Iterator[None]:
    """Remove what a file leaves on disk once the block ends."""
    try:
        yield
    finally:
        if _helper:
            _clear(_helper.scratch.path)


def _clear(directory: Path) -> None:
    with suppress(OSError):
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)  # noqa: PTH108 - a string


def _request(head: dict[str, Any], data: bytes) -> tuple[bytes, ...]:
    packed = orjson.dumps(head)
    packed = REQUEST.pack(len(packed), len(data)) + packed
    # one write for small requests, no copy of large data
    return (packed + data,) if len(data) < _PIPE_CHUNK_BYTES else (packed, data)


def _attempt(request: tuple[bytes, ...], limits: Limits) -> dict[str, Any] | None:
    """The helper's answer; None if another attempt may do better. Raises `too_large` if none will."""
    helper = _ready(limits)
    fresh, helper.used = not helper.used, True
    answer: dict[str, Any] | None
    try:
        answer = _exchange(helper, request, limits)
    except _LateError:
        _end()
        if not fresh:
            return None
        raise FileError(Reason.CRASHED, "Reading the file does not finish; exclude it or convert it.") from None
    except _DiedError:
        code, peak = _end()
        if code in _TIMEOUT_EXIT_CODES:
            raise too_large(f"Reading the file takes longer than PARSE_SECONDS ({limits.seconds:g} s)") from None
        answer = {"memory": True} if peak > max(helper.inherited, limits.memory_bytes // 2) else None
        if answer is None and code == -signal.SIGABRT and fresh:
            raise FileError(Reason.PARSE_FAILED, _ABORTED) from None
    except BaseException:
        # the answer to this file would be taken for the next file's
        _end()
        raise
    if answer and answer.get("last"):
        _end()
    if answer and "memory" in answer:
        if not fresh:
            return None
        megabytes = limits.memory_bytes >> 20
        raise too_large(f"Reading the file takes more memory than PARSE_MEMORY_MB ({megabytes:,} MB)")
    return answer


def _document(answer: dict[str, Any]) -> Document:
    if "reason" in answer:
        raise FileError(Reason(answer["reason"]), answer["message"])
    fields = answer["document"]
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Document(**{**fields, **lists, "properties": DocumentProperties(**fields["properties"])})


def _attempt_seconds(limits: Limits) -> float:
    """Wall-clock seconds for one attempt. A busy helper reaches its processor time limit first."""
    return BUSY * limits.seconds + _PIPE_SECONDS


def _ready(limits: Limits) -> _Helper:
    """A running helper with the allowed amount of memory."""
    global _helper  # noqa: PLW0603 - one helper per process, kept between files
    if _helper and (_helper.process.poll() is not None or _helper.memory_bytes != limits.memory_bytes):
        _end()
    if _helper is None:
        _helper = _start(limits.memory_bytes)
    return _helper


def _start(memory_bytes: int) -> _Helper:
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    scratch = Scratch()
    process = subprocess.Popen(
        [sys.executable, "-m", "worker.parse.sandbox.child", str(os.getpid()), str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=confine.ROOT,
        env={**environment, **_ONE_THREAD, **_KEPT_MEMORY, "TMPDIR": str(scratch.path)},
        bufsize=0,
        # its own children end with it
        start_new_session=True,
    )
    for pipe in (process.stdin, process.stdout):
        os.set_blocking(_open(pipe).fileno(), False)
    return _Helper(process, scratch, memory_bytes, _peak_of(resource.getrusage(resource.RUSAGE_SELF)))


def _end() -> tuple[int, int]:
    """End the helper and its children; return its exit code and its peak memory in bytes."""
    global _helper
    if _helper is None:
        return 0, 0
    helper, _helper = _helper, None
    process = helper.process
    code, peak = _reap(process)
    for pipe in (process.stdin, process.stdout):
        _open(pipe).close()
    helper.scratch.remove()
    return code, peak


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


def _exchange(helper: _Helper, request: tuple[bytes, ...], limits: Limits) -> dict[str, Any]:
    deadline = time.monotonic() + _attempt_seconds(limits)
    for part in request:
        _write(_open(helper.process.stdin).fileno(), part, deadline)
    source = _open(helper.process.stdout).fileno()
    head, text = ANSWER.unpack(_read(source, ANSWER.size, deadline))
    if head > _MAX_HEAD_BYTES or text > MAX_CHARACTER_BYTES * limits.max_characters:
        raise _DiedError
    answer: dict[str, Any] = orjson.loads(_read(source, head, deadline))
    if "document" in answer:
        answer["document"]["text"] = _read(source, text, deadline).decode()
    return answer


def _write(handle: int, data: bytes, deadline: float) -> None:
    unsent = memoryview(data)
    while unsent:
        _wait(handle, select.POLLOUT, deadline)
        try:
            unsent = unsent[os.write(handle, unsent[:_PIPE_CHUNK_BYTES]) :]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            raise _DiedError from None


def _read(handle: int, length: int, deadline: float) -> bytearray:
    data = bytearray(length)
    unfilled = memoryview(data)
    while unfilled:
        _wait(handle, select.POLLIN, deadline)
        count = os.readv(handle, [unfilled[:_PIPE_CHUNK_BYTES]])
        if not count:
            raise _DiedError
        unfilled = unfilled[count:]
    return data


def _wait(handle: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(handle, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise _LateError


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # pragma: no cover - both are pipes, which the types do not express
        raise _DiedError
    return pipe


def _forget() -> None:
    """After a fork the helper belongs to the parent; this process starts its own."""
    global _helper, _lock
    if _helper:
        _helper.process.returncode = 0
        for pipe in (_helper.process.stdin, _helper.process.stdout):
            _open(pipe).close()
        _helper.scratch.leave()
    _helper, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget)
atexit.register(stop)
