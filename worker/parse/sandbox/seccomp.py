"""Restricts a process to a list of system calls. The kernel answers EPERM to all others."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping
from errno import ENOSYS, EPERM
from typing import NamedTuple


class Check(NamedTuple):
    """Allows a call whose argument has one of these values under the mask. The kernel too reads 32 bits of it."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFF_FFFF


#: A call's numbers on x86-64 and on aarch64 (-1: it has none), and its allowed uses.
Calls = Mapping[str, tuple[int, int, Check | None]]

_MEMORY = """
brk 12 214, mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, msync 26 227,
membarrier 324 283, mbind 237 235, get_mempolicy 239 236
"""
_FILES = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
open 2 -1, openat 257 56, close 3 57, close_range 436 436, lseek 8 62, dup 32 23, dup2 33 -1, dup3 292 24,
fcntl 72 25, ioctl 16 29, ftruncate 77 46, fallocate 285 47, fsync 74 82, fdatasync 75 83, fadvise64 221 223,
copy_file_range 326 285, sendfile 40 71, stat 4 -1, lstat 6 -1, fstat 5 80, newfstatat 262 79, statx 332 291,
statfs 137 43, fstatfs 138 44, access 21 -1, faccessat 269 48, faccessat2 439 439, readlink 89 -1,
readlinkat 267 78, getdents 78 -1, getdents64 217 61, getcwd 79 17, umask 95 166, rename 82 -1, renameat 264 38,
renameat2 316 276, unlink 87 -1, unlinkat 263 35, mkdir 83 -1, mkdirat 258 34, rmdir 84 -1, pipe 22 -1,
pipe2 293 59, poll 7 -1, ppoll 271 73, select 23 -1, pselect6 270 72, epoll_create 213 -1, epoll_create1 291 20,
epoll_ctl 233 21, epoll_wait 232 -1, epoll_pwait 281 22, eventfd2 290 19
"""
_ITSELF = """
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigsuspend 130 133,
rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128, pause 34 -1, tgkill 234 131, futex 202 98,
clone 56 220, set_robust_list 273 99, set_tid_address 218 96, rseq 334 293, exit 60 93, exit_group 231 94,
sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, getcpu 309 168, getpid 39 172, getppid 110 173,
gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158,
getresuid 118 148, getresgid 120 150, getpgid 121 155, getpgrp 111 -1, getsid 124 156, uname 63 160,
sysinfo 99 179, getrandom 318 278, getrlimit 97 163, prlimit64 302 261, getrusage 98 165, times 100 153,
time 201 -1, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115,
nanosleep 35 101, setitimer 38 103, getitimer 36 102, alarm 37 -1, prctl 157 167, arch_prctl 158 -1
"""
_CHILDREN = "execve 59 221, fork 57 -1, vfork 58 -1, wait4 61 260, waitid 247 95, chdir 80 49, fchdir 81 50"
#: LibreOffice finds a running instance by a socket, and locks its settings with links.
_OFFICE = """
socket 41 198, socketpair 53 199, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242,
shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209, setsockopt 54 208, sendto 44 206,
recvfrom 45 207, sendmsg 46 211, recvmsg 47 212, link 86 -1, linkat 265 37
"""
#: Further calls that starting a program needs: its process group, its end and its own filter.
_STARTER = "setpgid 109 154, kill 62 129, seccomp 317 277"

_CLONE_THREAD = 0x0001_0900  # CLONE_VM, CLONE_SIGHAND and CLONE_THREAD
_CLONE_PARENT = 0x0000_8000
_CLONE_NAMESPACES = 0x7E02_0000
_DUPLICATE_AND_FLAGS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
_LOCKS = (5, 6, 7, 36, 37, 38)
#: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2: questions, and flags of the handle itself.
_CONTROLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C_542A)
#: PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ,
#: PR_GET_NO_NEW_PRIVS, PR_SET_VMA.
_OF_PROCESS = (1, 2, 3, 15, 16, 21, 23, 39, 0x5356_4D41)
_AF_UNIX = 1
_ALL = 0xFFFF_FFFF

#: Column of a call's number, number of the call that sets a filter, and name of the architecture in the kernel.
_MACHINES = {"x86_64": (0, 317, 0xC000_003E), "aarch64": (1, 277, 0xC000_00B7)}
#: Numbers from here on belong to x32 on x86-64, whose calls are the same under other numbers.
_FIRST_OF_X32 = 0x4000_0000
#: Higher numbers are unknown to this table. Libraries that probe for such a call have a fallback for ENOSYS alone.
_LAST_KNOWN = 471
#: Its flags are where a filter cannot read them. On ENOSYS, the C library uses `clone`.
_CLONE3 = 435

_SET_MODE_FILTER = 1
_ALL_THREADS = 1
_ALLOW = 0x7FFF_0000
_REFUSE = 0x0005_0000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER = 0x15, 0x25
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


def parser_calls() -> Calls:
    """Return the calls that this process needs to read files itself: memory, files and threads."""
    checks = {
        "clone": Check(0, (_CLONE_THREAD,), _CLONE_THREAD | _CLONE_NAMESPACES),
        "fcntl": Check(1, _DUPLICATE_AND_FLAGS),
    }
    return _listed(_MEMORY + "," + _FILES + "," + _ITSELF, checks)


def program_calls(*, office: bool) -> Calls:
    """Return the calls of converters and recognisers: also child processes and, for LibreOffice, Unix sockets."""
    checks = {
        "clone": Check(0, (0,), _CLONE_PARENT | _CLONE_NAMESPACES),
        "fcntl": Check(1, _DUPLICATE_AND_FLAGS + _LOCKS),
        "socket": Check(0, (_AF_UNIX,)),
        "socketpair": Check(0, (_AF_UNIX,)),
    }
    return _listed(",".join((_MEMORY, _FILES, _ITSELF, _CHILDREN, *([_OFFICE] if office else []))), checks)


def starter_calls(*, office: bool) -> Calls:
    """Return the calls of the process that starts programs, which include its programs' calls."""
    return {**program_calls(office=office), **_listed(_STARTER, {})}


def _listed(text: str, checks: Mapping[str, Check]) -> Calls:
    checks = {
        "tgkill": Check(0, (os.getpid(),)),
        # limits of other processes use a number other than 0
        "prlimit64": Check(0, (0,)),
        "ioctl": Check(1, _CONTROLS),
        "prctl": Check(0, _OF_PROCESS),
        **checks,
    }
    rows = (row.split() for row in text.split(","))
    return {name: (int(first), int(second), checks.get(name)) for name, first, second in rows}


def restrict(calls: Calls) -> bool:
    """Let this process and its children make only these calls from now on; return whether the system supports it.

    It needs `no_new_privs`.
    """
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None or sys.maxsize < 1 << 32:
        return False
    column, number, architecture = machine
    code = filter_of(calls, column, architecture)
    held = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(number, _SET_MODE_FILTER, _ALL_THREADS, program) == 0)


def filter_of(calls: Calls, column: int, architecture: int) -> bytes:
    """Return the filter as BPF: each block answers if its condition holds, or continues with the next."""
    code = [_step(_LOAD, _ARCHITECTURE_AT), _step(_IF_EQUAL, architecture, skip=1), _refuse(EPERM)]
    code += [_step(_LOAD, _NUMBER_AT), _step(_IF_GREATER, _FIRST_OF_X32 - 1, otherwise=1), _refuse(EPERM)]
    code += [_step(_IF_GREATER, _LAST_KNOWN, otherwise=1), _refuse(ENOSYS)]
    code += [_step(_IF_EQUAL, _CLONE3, otherwise=1), _refuse(ENOSYS)]
    for *numbers, check in calls.values():
        if numbers[column] >= 0:
            answer = [_step(_RETURN, _ALLOW)] if check is None else _checked(check)
            code += [_step(_IF_EQUAL, numbers[column], otherwise=len(answer)), *answer]
    return b"".join([*code, _refuse(EPERM)])


def _checked(check: Check) -> list[bytes]:
    code = [_step(_LOAD, _ARGUMENTS_AT + 8 * check.argument), _step(_AND, check.mask)]
    for value in check.values:
        code += [_step(_IF_EQUAL, value, otherwise=1), _step(_RETURN, _ALLOW)]
    return [*code, _refuse(EPERM)]


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _REFUSE | error)


def _step(code: int, value: int, *, skip: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; a comparison skips different numbers of instructions if it holds and if not."""
    return struct.pack("=HBBI", code, skip, otherwise, value)
