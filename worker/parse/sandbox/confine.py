"""Confines a process that reads files: no network, little of the disk, no power over other processes.

Measures that the system refuses are reported; the others still apply. Run as a program, it prints what is refused here.
It imports only the standard library, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_CAPABILITY_VERSION_3 = 0x2008_0522
#: The capability to read everything, and the one to write everything as well.
_PASS_DIRECTORIES = (1 << 2, 1 << 1)

#: Landlock's system calls, which have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH = 1, 1
#: Rights over files: execute, write and read them, and list directories.
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
#: Rights to create devices, which no reader needs.
_MAKE_DEVICES = 1 << 6 | 1 << 11
#: LibreOffice creates a socket in /tmp, wherever its other files are, and does not start without it.
_OFFICE = {"soffice", "libreoffice"}
_REMOVE_FILES, _MAKE_SOCKETS = 1 << 5, 1 << 9
#: Number of file rights in each version of Landlock; later versions use the newest.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
#: First versions of Landlock that restrict TCP, and signals and abstract sockets.
_WITH_NET, _WITH_SCOPES = 4, 6
_TCP, _SCOPES = 0b11, 0b11

_ROOT = Path(__file__).resolve().parents[3]
#: Where systems keep programs, libraries, fonts and their settings, but no secrets.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/home/linuxbrew/.linuxbrew", "/snap"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives", "/etc/fonts", "/etc/catdocrc"),
    *("/etc/libreoffice", "/var/spool/libreoffice", "/var/lib/libreoffice", "/etc/locale.alias"),
    *("/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system/cpu"),
)
_BESIDE_BIN = ("lib", "lib64", "libexec", "share")


def confine(writable: str, file_bytes: int, programs: Iterable[str] = ()) -> list[str]:
    """Confine this single-threaded process and its children for good; return the measures that the system refuses.

    They can write only below `writable`, and no file of more than `file_bytes`. They can read the interpreter, this
    code, the system's libraries and those of `programs`.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return ["no_new_privs, a network namespace and Landlock (Linux has them)"]
    libc = ctypes.CDLL(None, use_errno=True)
    reach = _reach(libc)
    measures: list[tuple[str, Callable[[], bool]]] = [
        ("no_new_privs", lambda: libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0),
        ("a network namespace", partial(_leave_network, libc, can_map=not reach)),
        ("dropping capabilities", lambda: _keep_capabilities(libc, reach)),
    ]
    refused = [name for name, measure in measures if not measure()]
    return refused + _leave_disk(libc, writable, programs)


def _reach(libc: ctypes.CDLL) -> int:
    """The capability that this process needs to read its own code in a closed directory; 0 if none."""
    held = _capabilities(libc)
    passes = [one for one in _PASS_DIRECTORIES if held[0] & one]
    if not passes:
        return 0
    _set_capabilities(libc, (0, *held[1:]))
    try:
        for place in (str(_ROOT / "worker"), sys.base_prefix, *sys.path):
            with suppress(FileNotFoundError, NotADirectoryError):
                next(iter(os.scandir(place)), None)
    except PermissionError:
        return passes[0]
    finally:
        _set_capabilities(libc, held)
    return 0


def _capabilities(libc: ctypes.CDLL) -> tuple[int, int, int]:
    """The effective, permitted and inheritable capabilities."""
    header, data = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    libc.capget(header, data)
    low, high = struct.unpack("6I", data.raw)[:3], struct.unpack("6I", data.raw)[3:]
    effective, permitted, inherited = (one | other << 32 for one, other in zip(low, high, strict=True))
    return effective, permitted, inherited


def _set_capabilities(libc: ctypes.CDLL, sets: tuple[int, int, int]) -> bool:
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("6I", *(one & 0xFFFF_FFFF for one in sets), *(one >> 32 for one in sets))
    return bool(libc.capset(header, data) == 0)


def _keep_capabilities(libc: ctypes.CDLL, kept: int) -> bool:
    """Drop all capabilities but `kept`; without them, root has no power over processes that have them."""
    effective, permitted, inherited = _capabilities(libc)
    return _set_capabilities(libc, (effective & kept, permitted & kept, inherited & kept))


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


def _leave_disk(libc: ctypes.CDLL, writable: str, programs: Iterable[str]) -> list[str]:
    """Restrict this process with Landlock, as far as the kernel's version allows; return what is refused."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    if version < 1:
        return ["Landlock"]
    rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    handled = [rights, *([_TCP] if version >= _WITH_NET else []), *([_SCOPES] if version >= _WITH_SCOPES else [])]
    attributes = struct.pack(f"{len(handled)}Q", *handled)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return ["Landlock"]
    for place in _readable(programs):
        _allow(libc, rules, place, _EXECUTE | _READ | _LIST)
    _allow(libc, rules, "/dev/null", _READ | _WRITE | rights & (_TRUNCATE | _IOCTL))
    _allow(libc, rules, writable, rights & ~_MAKE_DEVICES & ~_IOCTL)
    if any(map(shutil.which, _OFFICE & {*programs})):
        _allow(libc, rules, "/tmp", _REMOVE_FILES | _MAKE_SOCKETS)  # noqa: S108 - we create no file there
    bound = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    if not bound:
        return ["Landlock"]
    later = (("Landlock's rules for TCP", _WITH_NET), ("Landlock's rules for signals", _WITH_SCOPES))
    return [name for name, since in later if version < since]


def _allow(libc: ctypes.CDLL, rules: int, place: str, rights: int) -> None:
    try:
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not every system has it
        return
    if not os.path.isdir(place):  # noqa: PTH112 - a string
        rights &= _ON_FILES
    libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    os.close(handle)


def _readable(programs: Iterable[str]) -> Iterator[str]:
    yield from _SYSTEM
    yield from (sys.prefix, sys.base_prefix, str(_ROOT / "worker"), str(_ROOT / "schemas"))
    # the project's own folder may contain user data
    yield from (place for place in sys.path if place and Path(place).resolve() != _ROOT)
    for name in ("LD_LIBRARY_PATH", "TESSDATA_PREFIX"):
        yield from filter(None, os.environ.get(name, "").split(":"))
    for program in filter(None, map(shutil.which, programs)):
        for path in (Path(program), Path(program).resolve()):
            yield str(path)
            yield from _around(path.parent)


def _around(folder: Path) -> Iterator[str]:
    """Further directories that a program in this folder reads."""
    if folder.name == "bin":
        yield from (str(folder.parent / name) for name in _BESIDE_BIN)
    elif folder.name == "program":  # part of an office suite
        yield str(folder.parent)


if __name__ == "__main__":
    print(*confine(os.devnull, resource.RLIM_INFINITY), sep=", ")  # noqa: T201 - the program's purpose
