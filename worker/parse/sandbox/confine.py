"""Confines a process that reads files: no network, little of the disk, no power over other processes.

Measures that the system refuses are reported; the others still apply. Run as a program, it prints the measures refused
here. It imports only the standard library, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import shutil
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWNET = 0x4000_0000
_CAPABILITY_VERSION_3 = 0x2008_0522
#: The capability to read everything, and the one to write everything as well.
_PASS_DIRECTORIES = (1 << 2, 1 << 1)

#: Landlock's system calls, which have the same numbers on every architecture.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
#: Rights over files: execute, write and read them, and list directories.
_EXECUTE = 1 << 0
_WRITE = 1 << 1
_READ = 1 << 2
_LIST = 1 << 3
_TRUNCATE = 1 << 14
_IOCTL = 1 << 15
_ON_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
#: Rights to create devices, which no reader needs.
_MAKE_DEVICES = 1 << 6 | 1 << 11
#: LibreOffice creates a socket in /tmp, wherever its other files are, and does not start without it.
OFFICE = {"soffice", "libreoffice"}
_REMOVE_FILES = 1 << 5
_MAKE_SOCKETS = 1 << 9
#: Number of file rights in each version of Landlock; later versions use the newest.
_FILE_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
#: First version of Landlock that restricts TCP.
_FIRST_WITH_TCP = 4
#: First version of Landlock that restricts signals and abstract sockets.
_FIRST_WITH_SCOPES = 6
#: All rights over TCP, and all scopes.
_TCP = 0b11
_SCOPES = 0b11

#: The directory that holds the packages.
ROOT = Path(__file__).resolve().parents[3]
#: Directories with programs, libraries, fonts and their settings, but no secrets.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/home/linuxbrew/.linuxbrew", "/snap"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives", "/etc/fonts", "/etc/catdocrc"),
    *("/etc/libreoffice", "/var/spool/libreoffice", "/var/lib/libreoffice", "/etc/locale.alias"),
    *("/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system/cpu"),
)
#: Files that a process may hold open; readers need few, LibreOffice some hundred.
_MAX_HANDLES = 1024
_SIBLINGS_OF_BIN = ("lib", "lib64", "libexec", "share")


def confine(writable: str, file_bytes: int, programs: Iterable[str] = ()) -> list[str]:
    """Confine this single-threaded process and its children for good; return the measures that the system refuses.

    They can write only below `writable`, and no file of more than `file_bytes`. They can read the interpreter, this
    code, the system's libraries and those of `programs`.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    handles = min(_MAX_HANDLES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))
    if sys.platform != "linux":
        return ["no_new_privs, a network namespace and Landlock (Linux has them)"]
    libc = ctypes.CDLL(None, use_errno=True)
    capability = _needed_capability(libc)
    measures: list[tuple[str, Callable[[], bool]]] = [
        ("no_new_privs", lambda: libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0),
        ("a network namespace", partial(_leave_network, libc, can_map=not capability)),
        ("dropping capabilities", lambda: _keep_capabilities(libc, capability)),
    ]
    refused = [name for name, measure in measures if not measure()]
    return refused + _restrict_disk(libc, writable, programs)


def _needed_capability(libc: ctypes.CDLL) -> int:
    """Return the capability that this process needs to read its own code in a closed directory; 0 if none."""
    held = _capabilities(libc)
    passes = [capability for capability in _PASS_DIRECTORIES if held[0] & capability]
    if not passes:
        return 0
    _set_capabilities(libc, (0, *held[1:]))
    try:
        for path in (str(ROOT / "worker"), sys.base_prefix, *sys.path):
            with suppress(FileNotFoundError, NotADirectoryError):
                next(iter(os.scandir(path)), None)
    except PermissionError:
        return passes[0]
    finally:
        _set_capabilities(libc, held)
    return 0


def _capabilities(libc: ctypes.CDLL) -> tuple[int, int, int]:
    """Return the effective, permitted and inheritable capabilities."""
    header, data = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    libc.capget(header, data)
    low, high = struct.unpack("6I", data.raw)[:3], struct.unpack("6I", data.raw)[3:]
    effective, permitted, inherited = (
        low_bits | high_bits << 32 for low_bits, high_bits in zip(low, high, strict=True)
    )
    return effective, permitted, inherited


def _set_capabilities(libc: ctypes.CDLL, sets: tuple[int, int, int]) -> bool:
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack(
        "6I", *(capabilities & 0xFFFF_FFFF for capabilities in sets), *(capabilities >> 32 for capabilities in sets)
    )
    return bool(libc.capset(header, data) == 0)


def _keep_capabilities(libc: ctypes.CDLL, capabilities: int) -> bool:
    """Drop all capabilities but `capabilities`; without them, root has no power over processes that have them."""
    effective, permitted, inherited = _capabilities(libc)
    return _set_capabilities(libc, (effective & capabilities, permitted & capabilities, inherited & capabilities))


def _leave_network(libc: ctypes.CDLL, *, can_map: bool) -> bool:
    """Move this process to a network namespace of its own, which has no connection."""
    if libc.unshare(_CLONE_NEWNET) == 0:
        return True
    uid, gid = os.geteuid(), os.getegid()
    # in a user namespace the capability to enter closed directories is lost
    if not can_map or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    for name, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
        with suppress(OSError):  # unmapped ids show as `nobody`, but keep their ownership
            Path("/proc/self", name).write_text(text)
    return True


def _restrict_disk(libc: ctypes.CDLL, writable: str, programs: Iterable[str]) -> list[str]:
    """Restrict this process with Landlock, as far as the kernel's version allows; return the refused measures."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    if version < 1:
        return ["Landlock"]
    rights = (1 << _FILE_RIGHTS_BY_VERSION[min(version, max(_FILE_RIGHTS_BY_VERSION))]) - 1
    handled = [
        rights,
        *([_TCP] if version >= _FIRST_WITH_TCP else []),
        *([_SCOPES] if version >= _FIRST_WITH_SCOPES else []),
    ]
    attributes = struct.pack(f"{len(handled)}Q", *handled)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return ["Landlock"]
    for path in _readable(programs):
        _allow(libc, rules, path, _EXECUTE | _READ | _LIST)
    _allow(libc, rules, "/dev/null", _READ | _WRITE | rights & (_TRUNCATE | _IOCTL))
    _allow(libc, rules, writable, rights & ~_MAKE_DEVICES & ~_IOCTL)
    if any(map(shutil.which, OFFICE & {*programs})):
        _allow(libc, rules, "/tmp", _REMOVE_FILES | _MAKE_SOCKETS)  # noqa: S108 - we create no file there
    bound = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    if not bound:
        return ["Landlock"]
    newer_rules = (("Landlock's rules for TCP", _FIRST_WITH_TCP), ("Landlock's rules for signals", _FIRST_WITH_SCOPES))
    return [name for name, since in newer_rules if version < since]


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not every system has it
        return
    if not os.path.isdir(path):  # noqa: PTH112 - a string
        rights &= _ON_FILES
    libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    os.close(handle)


def _readable(programs: Iterable[str]) -> Iterator[str]:
    yield from _SYSTEM
    yield from (sys.prefix, sys.base_prefix, str(ROOT / "worker"), str(ROOT / "schemas"))
    # the project's own folder may contain user data
    yield from (entry for entry in sys.path if entry and Path(entry).resolve() != ROOT)
    for name in ("LD_LIBRARY_PATH", "TESSDATA_PREFIX"):
        yield from filter(None, os.environ.get(name, "").split(":"))
    for program in filter(None, map(shutil.which, programs)):
        for path in (Path(program), Path(program).resolve()):
            yield str(path)
            yield from _directories_beside(path.parent)


def _directories_beside(folder: Path) -> Iterator[str]:
    """Further directories that a program in this folder reads."""
    if folder.name == "bin":
        yield from (str(folder.parent / name) for name in _SIBLINGS_OF_BIN)
    elif folder.name == "program":  # part of an office suite
        yield str(folder.parent)


def _report() -> list[str]:
    """Return the measures that are refused here, where only the standard library can be imported."""
    refused = confine(os.devnull, resource.RLIM_INFINITY)
    seccomp = runpy.run_path(str(Path(__file__).with_name("seccomp.py")))
    return refused if seccomp["restrict"](seccomp["parser_calls"]()) else [*refused, "seccomp"]


if __name__ == "__main__":
    print(*_report(), sep=", ")  # noqa: T201 - the program's purpose
