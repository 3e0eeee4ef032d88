"""Starts programs that can read one folder only, even through links in their arguments.

Linux' Landlock restricts the thread that requests it, and the processes that this thread starts. So each start has a
thread of its own.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from worker.machine.handles import closing

_PR_SET_NO_NEW_PRIVS = 38
#: Landlock's system calls, which have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
#: Rights over files: to execute and read them, and to list directories.
_EXECUTE, _READ, _LIST = 1 << 0, 1 << 2, 1 << 3
_ALL = _EXECUTE | _READ | _LIST
#: Files that programs of the system need to start.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache", "/dev/null")

Started = TypeVar("Started")


@cache
def can_bound_reads() -> bool:
    """Return whether the system can restrict a program's reads: Linux with Landlock, since 5.13."""
    return sys.platform == "linux" and _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION) > 0


def start_below(folder: int, program: str, start: Callable[[], Started]) -> Started:
    """Call `start` so that the processes it starts can read only the opened folder, their program and the system's.

    Raises `OSError` if the system refuses.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="foldex-bounded") as thread:
        return thread.submit(_start_confined, folder, program, start).result()


def _start_confined(folder: int, program: str, start: Callable[[], Started]) -> Started:
    with closing(_call_or_raise(_CREATE_RULESET, struct.pack("Q", _ALL), ctypes.c_size_t(8), 0)) as rules:
        _allow(rules, folder, _READ | _LIST)
        for path in _programs(program):
            with suppress(OSError), closing(os.open(path, os.O_PATH)) as handle:  # not every system has it
                _allow(rules, handle, _ALL if os.path.isdir(path) else _EXECUTE | _READ)  # noqa: PTH112 - a string
        if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs")
        _call_or_raise(_RESTRICT_SELF, rules, 0)
    return start()


def _programs(program: str) -> Iterable[str]:
    return (*_SYSTEM, sys.prefix, sys.base_prefix, program, str(Path(program).resolve()))


def _allow(rules: int, handle: int, rights: int) -> None:
    _call_or_raise(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)


def _call_or_raise(number: int, *values: object) -> int:
    result = _call(number, *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _call(number: int, *values: object) -> int:
    result: int = _libc().syscall(number, *values)
    return result


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
