"""Runs rg, if it is installed, to find files with a match quickly."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from worker.machine.bounded_reads import can_bound_reads, start_below
from worker.machine.handles import path_of_handle

#: Seconds between two calls of `check`.
_POLL_SECONDS = 0.1

#: Niceness of rg: other calls need the processors more.
_NICENESS = 10
#: Threads of rg. Half of the processors stay with other calls.
_THREADS = max(1, (os.cpu_count() or 1) // 2)

#: An older rg finds other lines than Python for some patterns.
_MIN_MAJOR_VERSION = 14
#: Seconds in which rg tells its version.
_VERSION_SECONDS = 5

#: No configuration, no ignore rules but ours, NUL after names, and no mmap: a truncated file would crash rg.
_OPTIONS = (
    *("--no-config", "--no-ignore", "--no-messages", "--no-mmap", "--color=never"),
    *("--files-with-matches", "--null", "--regex-size-limit=20M", "--dfa-size-limit=20M"),
    f"--threads={_THREADS}",
)
#: Exit codes of rg: a match, no match, an error.
_EXIT_MATCH = 0
_EXIT_NO_MATCH = 1
_EXIT_ERROR = 2
#: Arguments to find files with a line that is not UTF-8.
_NOT_UTF8 = ("--encoding=none", "--text", "--invert-match", "--line-regexp", "--", ".*")
#: Arguments to find files without NUL: parsers may know their encoding.
_WITHOUT_NUL = ("--encoding=none", "--text", "--files-without-match", "--", r"\x00")


@cache
def program() -> str | None:
    """The path of rg: beside this Python, else on PATH unless it is too old. Looked up once."""
    beside = shutil.which("rg", path=str(Path(sys.executable).parent))
    if beside is not None:
        return beside
    on_path = shutil.which("rg")
    return on_path if on_path is not None and _major_version(on_path) >= _MIN_MAJOR_VERSION else None


def matching_files(
    program_: str, pattern: Sequence[str], folder: int, names: Sequence[bytes], check: Callable[[], None]
) -> list[bytes]:
    """The files of `names`, relative to the opened `folder`, that have a match, in their order.

    Returns all of them if rg rejects the pattern, cannot be started, or crashes. `check` may raise to end the search,
    which also ends rg.
    """
    if not names:
        # without names, rg would search the whole folder
        return []
    code, output = _run([program_, *_OPTIONS, *pattern, *names], folder, check)
    if code in {_EXIT_MATCH, _EXIT_NO_MATCH} or (code == _EXIT_ERROR and _accepts(program_, pattern, check)):
        matching = set(output.split(b"\0"))
        return [name for name in names if name in matching]
    return list(names)


def oddly_encoded_files(program_: str, folder: int, names: Sequence[bytes], check: Callable[[], None]) -> list[bytes]:
    """The files of `names` that are not UTF-8 and hold no NUL, in their order; see `matching_files`."""
    not_utf8 = matching_files(program_, _NOT_UTF8, folder, names, check)
    return matching_files(program_, _WITHOUT_NUL, folder, not_utf8, check)


def _major_version(program_: str) -> int:
    """The major version of rg; 0 if it does not tell."""
    command = [program_, "--no-config", "--version"]
    try:
        output = subprocess.check_output(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.match(rb"ripgrep (\d+)\.", output)
    return int(found[1]) if found else 0


def _accepts(program_: str, pattern: Sequence[str], check: Callable[[], None]) -> bool:
    """Whether rg accepts the pattern, so that its error was about unreadable files."""
    return _run([program_, *_OPTIONS, *pattern, "/dev/null"], None, check)[0] in {_EXIT_MATCH, _EXIT_NO_MATCH}


def _run(command: Sequence[str | bytes], folder: int | None, check: Callable[[], None]) -> tuple[int | None, bytes]:
    """Run rg. Returns its exit code and output; no code if it cannot be started."""
    try:
        return _exit_and_output(command, folder, check)
    except OSError:
        # the folder or rg was deleted, or the system cannot start another process
        return None, b""


def _exit_and_output(
    command: Sequence[str | bytes], folder: int | None, check: Callable[[], None]
) -> tuple[int, bytes]:
    with _start(command, folder) as process:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        try:
            while True:
                check()
                try:
                    output, _ = process.communicate(timeout=_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
                return process.returncode, output
        finally:
            process.kill()


def _start(command: Sequence[str | bytes], folder: int | None) -> subprocess.Popen[bytes]:
    """Start rg in an opened folder, out of which no link leads it where the system can prevent that."""

    def start() -> subprocess.Popen[bytes]:
        place = None if folder is None else path_of_handle(folder)
        return subprocess.Popen(
            command, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    if folder is None or not can_bound_reads():
        return start()
    return start_below(folder, os.fsdecode(command[0]), start)
