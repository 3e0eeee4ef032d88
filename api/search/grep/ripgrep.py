"""The program rg, where it is installed: it tells which files have a match, at its own speed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore

#: Seconds between two looks at whether anybody still waits.
_PATIENCE = 0.1

#: Each of them uses every processor: more at a time would only take more memory.
_slots = BoundedSemaphore(4)

#: No configuration, no ignore rules but ours, names ended by NUL; a file that is cut short meanwhile kills nobody.
_OPTIONS = (
    *("--no-config", "--no-ignore", "--no-messages", "--no-mmap", "--color=never"),
    *("--files-with-matches", "--null", "--regex-size-limit=20M", "--dfa-size-limit=20M"),
)
_FOUND, _NOTHING, _TROUBLE = 0, 1, 2
#: Files with a line that is not UTF-8, and those without NUL: what parsers may know the encoding of.
_BROKEN = ("--encoding=none", "--text", "--invert-match", "--line-regexp", "--", ".*")
_PRINTABLE = ("--encoding=none", "--text", "--files-without-match", "--", r"\x00")


@cache
def program() -> str | None:
    """Where rg is: on PATH, or beside this Python; found out once."""
    return shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def matching_files(
    program_: str, pattern: Sequence[str], folder: bytes, names: Sequence[bytes], check: Callable[[], None]
) -> list[bytes]:
    """Those of `names`, which are relative to `folder`, that have a match; in their order.

    All of them where rg does not take the pattern, cannot be started, or comes to a bad end. `check` may raise to end
    the search: the program ends with it.
    """
    if not names:
        # it would search the whole folder
        return []
    code, output = _run([program_, *_OPTIONS, *pattern, *names], folder, check)
    if code in {_FOUND, _NOTHING} or (code == _TROUBLE and _takes(program_, pattern, check)):
        found = set(output.split(b"\0"))
        return [name for name in names if name in found]
    return list(names)


def oddly_encoded_files(program_: str, folder: bytes, names: Sequence[bytes], check: Callable[[], None]) -> list[bytes]:
    """Those of `names` that are neither UTF-8 nor hold a NUL, in their order; see `matching_files`."""
    return matching_files(program_, _PRINTABLE, folder, matching_files(program_, _BROKEN, folder, names, check), check)


def _takes(program_: str, pattern: Sequence[str], check: Callable[[], None]) -> bool:
    """Whether it was files that could not be read, and not the pattern."""
    return _run([program_, *_OPTIONS, *pattern, "/dev/null"], b"/", check)[0] in {_FOUND, _NOTHING}


def _run(command: Sequence[str | bytes], folder: bytes, check: Callable[[], None]) -> tuple[int | None, bytes]:
    """The exit code and the output; no code where it cannot be started."""
    while not _slots.acquire(timeout=_PATIENCE):
        check()
    try:
        return _ran(command, folder or b"/", check)
    except OSError:
        # the folder or the program is gone, or the system has no room for another process
        return None, b""
    finally:
        _slots.release()


def _ran(command: Sequence[str | bytes], folder: bytes, check: Callable[[], None]) -> tuple[int, bytes]:
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while True:
                check()
                try:
                    output, _ = process.communicate(timeout=_PATIENCE)
                except subprocess.TimeoutExpired:
                    continue
                return process.returncode, output
        finally:
            process.kill()
