"""What hostile code within the helper itself may ask of the kernel. It runs in place of a reader, after confinement."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from errno import ENOSYS, EPERM
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from tests.contract.samples import DATA, LIMITS, ROOT, helper, of
from tests.contract.test_confined import refused_here
from tests.contract.test_ocr import ended
from tests.parsing import parse
from worker.formats import unsupported
from worker.parse.sandbox import client as sandbox
from worker.parse.sandbox import seccomp
from worker.sandbox.process import packed
from worker.sandbox.protocol import ANSWER

__all__ = ["helper"]
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in seccomp._MACHINES,
    reason="run on Linux, on x86-64 or aarch64: elsewhere no system call is refused",
)
MEMORY = 512 << 20
#: The last call that has a number in the kernels of today.
LAST = seccomp._LAST_KNOWN
#: `uretprobe` and `uprobe` on x86-64: no filter sees them, and the kernel ends a process that calls them by itself.
EXEMPT = {335, 336} if os.uname().machine == "x86_64" else set()

#: The helper, whose reader is hostile; what it was able to do is the text of the document.
CHILD = """
import ctypes, json, os, resource, signal, socket, struct, sys, threading
from schemas.content.document import Document
from worker.parse.sandbox import child, seccomp

place, worker, restricted, port = sys.argv[1], os.getppid(), sys.argv[2] == "restricted", int(sys.argv[3])
scratch = os.environ["TMPDIR"]
file, own = place + "/file", scratch + "/own"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(name, *arguments):
    ctypes.set_errno(0)
    if libc.syscall(NUMBERS[name], *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def in_own(flags):
    handle = os.open(own, os.O_RDWR | os.O_CREAT)
    try:
        flags(handle)
    finally:
        os.close(handle)

def controlled(handle, number, value=0):
    import fcntl
    fcntl.ioctl(handle, number, struct.pack("l", value))

def handled(handle, number, value):
    import fcntl
    fcntl.fcntl(handle, number, value)

def raised(name):
    soft, hard = resource.getrlimit(name)
    resource.setrlimit(name, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    resource.setrlimit(name, (soft, hard))

def of_32_bits():
    # mov eax, 20 (getpid); int 0x80; ret
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))

def forked():
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)

LIMITED = ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_NOFILE")

def nicer(process):
    os.setpriority(os.PRIO_PROCESS, process, os.getpriority(os.PRIO_PROCESS, process) + 1)

def limited(process):
    resource.prlimit(process, resource.RLIMIT_NOFILE, resource.prlimit(process, resource.RLIMIT_NOFILE))

tries = {
    "permissions": lambda: os.chmod(file, 0o666),
    "permissions by handle": lambda: in_own(lambda handle: os.fchmod(handle, 0o666)),
    "owner": lambda: os.chown(file, os.getuid(), os.getgid()),
    "owner by handle": lambda: in_own(lambda handle: os.fchown(handle, -1, os.getgid())),
    "times": lambda: os.utime(file, (1, 1)),
    "times by handle": lambda: in_own(lambda handle: os.utime(handle, (1, 1))),
    "attributes": lambda: os.setxattr(file, "user.foldex", b"1"),
    "attributes by handle": lambda: in_own(lambda handle: os.setxattr(handle, "user.foldex", b"1")),
    "removal of attributes": lambda: os.removexattr(file, "user.kept"),
    "flags of a file": lambda: in_own(lambda handle: controlled(handle, 0x40086602)),
    "lease": lambda: in_own(lambda handle: handled(handle, 1024, 1)),
    "lock": lambda: in_own(lambda handle: os.lockf(handle, os.F_TLOCK, 0)),
    "whom a handle signals": lambda: in_own(lambda handle: handled(handle, 8, os.getpid())),
    "link": lambda: (in_own(bool), os.link(own, own + ".link")),
    "symbolic link": lambda: os.symlink("/", own + ".symlink"),
    "named pipe": lambda: os.mkfifo(own + ".pipe"),
    "limits of the worker": lambda: limited(worker),
    "priority of the worker": lambda: nicer(worker),
    "processors of the worker": lambda: os.sched_setaffinity(worker, os.sched_getaffinity(0)),
    "policy of the worker": lambda: os.sched_setscheduler(worker, os.SCHED_BATCH, os.sched_param(0)),
    "input and output of the worker": lambda: call("ioprio_set", 1, worker, 3 << 13),
    "handle of the worker": lambda: os.close(os.pidfd_open(worker)),
    "signal": lambda: os.kill(os.getpid(), 0),
    "signal to a thread": lambda: call("tgkill", os.getppid(), os.getppid(), 0),
    "process": forked,
    "program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "session": lambda: call("setsid"),
    "group": lambda: os.setpgid(0, os.getpgid(0)),
    "Unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "pair of sockets": lambda: [end.close() for end in socket.socketpair()],
    "connection": lambda: socket.create_connection(("127.0.0.1", port), 5).close(),
    "signal to the worker": lambda: os.kill(worker, 0),
    "TCP": lambda: socket.socket(socket.AF_INET).close(),
    "UDP": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close(),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "file in memory": lambda: os.close(os.memfd_create("a")),
    "personality": lambda: call("personality", 0xFFFFFFFF),
    "whether others may read it": lambda: call("prctl", 4, 1),
    "space of memory": lambda: raised(resource.RLIMIT_AS),
    "number of handles": lambda: raised(resource.RLIMIT_NOFILE),
    "size of files": lambda: raised(resource.RLIMIT_FSIZE),
    "dump of memory": lambda: raised(resource.RLIMIT_CORE),
}
if os.uname().machine == "x86_64":
    tries["calls of 32 bits"] = of_32_bits
    tries["calls of x32"] = lambda: libc.syscall(0x40000000 + 39) >= 0 or in_x32()

def in_x32():
    raise OSError(ctypes.get_errno(), "")

def by_number(number):
    ctypes.set_errno(0)
    libc.syscall(number, *[ctypes.c_long(-1)] * 6)
    return ctypes.get_errno()

def attack(*_):
    outcome = {}
    for name, attempt in tries.items():
        try:
            attempt()
            outcome[name] = 0
        except (OSError, ValueError) as error:
            outcome[name] = getattr(error, "errno", None) or -1
    # 2: a filter is in force, without which some of these calls would do harm
    numbers = {}
    if restricted and libc.prctl(21) == 2:
        numbers = {number: by_number(number) for number in UNLISTED}
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    status = os.pread(child._status_file(), 1 << 16, 0).decode()
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in LIMITED}
    found = {"outcome": outcome, "numbers": numbers, "status": status, "limits": limits}
    return Document(json.dumps(found), "text")

child.read = attack
if not restricted:
    child.restrict = lambda calls: True
child.main(worker, MEMORY)
"""
#: What one process of a user may do to another one that has no more capabilities.
OF_EQUALS = ("priority of the worker", "processors of the worker")
#: What no filter allows, although this user might do it.
POSSIBLE_TO_ALL = (
    *("permissions", "permissions by handle", "times", "times by handle", "owner", "lock", "symbolic link", "link"),
    *("limits of the worker", "handle of the worker", "process"),
    *OF_EQUALS,
    *("Unix socket", "pair of sockets", "file in memory", "personality", "named pipe"),
)


def numbers_here() -> dict[str, int]:
    """The numbers of all system calls of this machine's architecture."""
    places = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"]
    if os.uname().machine == "aarch64":
        places = ["/usr/include/asm-generic/unistd.h"]
    return stated(*places)


def stated(*places: str) -> dict[str, int]:
    """The numbers of system calls that a header of the kernel defines."""
    header = next((Path(place) for place in places if Path(place).exists()), None)
    if header is None:
        pytest.skip("install linux-libc-dev to run")
    defined: dict[str, str] = dict(re.findall(r"^#define (__NR\w+)\s+(\w+)", header.read_text(), re.MULTILINE))
    numbers = {name: defined.get(value, value) for name, value in defined.items()}
    return {name.removeprefix("__NR_"): int(number) for name, number in numbers.items() if number.isdigit()}


def attacked(place: Path, how: str) -> dict[str, Any]:
    column = seccomp._MACHINES[os.uname().machine][0]
    listed = {row[column] for row in seccomp.parser_calls().values()}
    unlisted = [number for number in range(LAST + 1) if number not in listed | EXEMPT]
    head = f"NUMBERS, UNLISTED, MEMORY = {numbers_here()!r}, {unlisted!r}, {MEMORY}\n"
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as server:
        done = subprocess.run(
            [sys.executable, "-c", head + CHILD, str(place), how, str(server.getsockname()[1])],
            input=b"".join(packed(orjson.dumps({"type": "rtf", "limits": LIMITS}), b"")),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    size, text = ANSWER.unpack(done.stdout[: ANSWER.size])
    assert "document" in json.loads(done.stdout[ANSWER.size :][:size])
    answer: dict[str, Any] = json.loads(done.stdout[-text:])
    return answer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    (folder / "file").write_text("a user's")
    return folder


@pytest.fixture(scope="module")
def taken_over(place: Path) -> dict[str, Any]:
    """What hostile code got from the kernel in the helper."""
    return attacked(place, "restricted")


def test_code_in_the_helper_changes_no_file_and_no_process(taken_over: dict[str, Any], place: Path) -> None:
    limits = ("space of memory", "number of handles", "size of files", "dump of memory")
    outcome = taken_over["outcome"]
    assert {name: error for name, error in outcome.items() if error != EPERM and name not in limits} == {}
    # raised beyond the hard limit; Python names a refusal by `ValueError`
    assert all(outcome[name] in {-1, EPERM} for name in limits)
    found = (place / "file").stat()
    assert stat.S_IMODE(found.st_mode) != 0o666
    assert found.st_mtime > 1


@pytest.fixture(scope="module")
def unfiltered(place: Path) -> dict[str, int]:
    """The error that the kernel answers to each attempt without the filter, but with all else; 0 for none."""
    outcome: dict[str, int] = attacked(place, "free")["outcome"]
    (place / "file").unlink()
    (place / "file").write_text("a user's")
    return outcome


def test_what_is_refused_is_possible_without_the_filter(unfiltered: dict[str, int]) -> None:
    # root's helper has lost the capabilities that the worker has
    possible = {*POSSIBLE_TO_ALL} - ({*OF_EQUALS} if os.geteuid() == 0 else set())
    assert {name: unfiltered[name] for name in possible if unfiltered[name]} == {}


def test_without_the_filter_neither_tcp_nor_a_signal_reaches_the_worker(unfiltered: dict[str, int]) -> None:
    refused = {*refused_here().split(", ")}
    if refused & {"a network namespace", "Landlock", "Landlock's rules for signals"}:
        pytest.skip("run on Linux 6.12 or later, with Landlock and network namespaces")
    assert unfiltered["signal to the worker"] == EPERM
    assert unfiltered["connection"]


def test_every_call_that_is_not_listed_is_refused(taken_over: dict[str, Any]) -> None:
    errors = {int(number): error for number, error in taken_over["numbers"].items()}
    assert len(errors) > 300
    assert {number for number, error in errors.items() if error != EPERM} == {seccomp._CLONE3}
    assert errors[seccomp._CLONE3] == ENOSYS


def test_limits_of_the_helper_are_hard(taken_over: dict[str, Any]) -> None:
    assert taken_over["limits"]["RLIMIT_AS"] == [MEMORY, MEMORY]
    assert taken_over["limits"]["RLIMIT_FSIZE"] == [MEMORY, MEMORY]
    assert taken_over["limits"]["RLIMIT_CORE"] == [0, 0]
    soft, hard = taken_over["limits"]["RLIMIT_NOFILE"]
    assert soft == hard <= 1024


def test_a_helper_started_by_root_holds_no_capability(taken_over: dict[str, Any]) -> None:
    if os.geteuid() != 0:
        pytest.skip("run as root: others have none")
    held = dict(re.findall(r"^(Cap\w+):\s+(\w+)$", taken_over["status"], re.MULTILINE))
    assert {name: int(held[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == dict.fromkeys(
        ("CapInh", "CapPrm", "CapEff", "CapAmb"), 0
    )
    assert "NoNewPrivs:\t1" in taken_over["status"]


#: Replaces Tesseract. It leaves a child that tries to get out of its group.
LINGERING = f"""#!{sys.executable}
import os, sys, time
if "--list-langs" in sys.argv:
    print("eng")
elif not (left := os.fork()):
    for leave in (os.setsid, lambda: os.setpgid(0, 0)):
        try:
            leave()
        except OSError:
            pass
    time.sleep(600)
else:
    tried = []
    for attempt in TRIES:
        try:
            attempt()
            tried.append("done")
        except OSError as error:
            tried.append(error.errno)
    open(sys.argv[2] + ".txt", "w").write(repr([left, tried]))
"""
#: What a program may not do either.
TRIES = """
import resource, socket
TRIES = (
    lambda: os.chmod(sys.argv[1], 0o600),
    lambda: os.utime(sys.argv[1]),
    lambda: os.setxattr(sys.argv[1], "user.a", b"1"),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (9, 9)),
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 9),
    lambda: os.kill(os.getppid(), 0),
    lambda: os.setpgid(0, 0),
    lambda: os.setsid(),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
)
"""


@pytest.fixture
def lingering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("PIL", reason="install pillow (extra `ocr`) to run")
    program = tmp_path / "tesseract"
    first, _, rest = LINGERING.partition("\n")
    program.write_text(f"{first}\n{rest.partition(chr(10))[0]}{TRIES}{rest.partition(chr(10))[2]}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox.stop()
    unsupported.programs.cache_clear()
    yield
    unsupported.programs.cache_clear()
    sandbox.stop()


@pytest.mark.usefixtures("lingering")
def test_a_program_has_a_list_of_its_own_and_leaves_nothing_behind() -> None:
    left, tried = json.loads(parse("a.png", of("image/notice.png"), LIMITS).text)
    assert tried == [EPERM] * 10
    with suppress(psutil.NoSuchProcess):
        assert ended(psutil.Process(left))
    assert sandbox.parser.running is not None
    (starter,) = psutil.Process(sandbox.parser.running.process.pid).children()
    sandbox.stop()
    assert ended(starter)


def test_programs_work_in_the_helper() -> None:
    if not unsupported.programs(("tesseract",)):
        pytest.skip("install tesseract-ocr to run")
    assert "buoy seven" in parse("a.png", (DATA / "image/notice.png").read_bytes(), LIMITS).text.casefold()


@pytest.mark.parametrize(
    ("machine", "places"),
    [
        ("x86_64", ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")),
        ("aarch64", ("/usr/include/asm-generic/unistd.h",)),
    ],
)
def test_numbers_are_those_of_the_kernel(machine: str, places: tuple[str, ...]) -> None:
    kernel, column = stated(*places), seccomp._MACHINES[machine][0]
    calls = seccomp.starter_calls(office=True)
    assert {name: row[column] for name, row in calls.items()} == {name: kernel.get(name, -1) for name in calls}
    assert kernel["seccomp"] == seccomp._MACHINES[machine][1]
    assert kernel["clone3"] == seccomp._CLONE3


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_allows_what_is_listed(machine: str) -> None:
    column, _, architecture = seccomp._MACHINES[machine]
    for calls in (seccomp.parser_calls(), seccomp.program_calls(office=True), seccomp.program_calls(office=False)):
        code = seccomp.filter_of(calls, column, architecture)
        listed = {row[column]: row[2] for row in calls.values()}
        for number in range(LAST + 1):
            check = listed.get(number)
            arguments = [0] * 6
            if check:
                arguments[check.argument] = check.values[-1]
            wanted = seccomp._ALLOW if number in listed else seccomp._REFUSE | EPERM
            wanted = seccomp._REFUSE | ENOSYS if number == seccomp._CLONE3 else wanted
            assert answer_of(code, number, architecture, arguments) == wanted, number
            if check:
                arguments[check.argument] = 0x7FFF_FFFF
                assert answer_of(code, number, architecture, arguments) == seccomp._REFUSE | EPERM
            assert answer_of(code, number, 0x4000_0003, arguments) == seccomp._REFUSE | EPERM
        assert answer_of(code, LAST + 1, architecture, [0] * 6) == seccomp._REFUSE | ENOSYS
        assert answer_of(code, 0x4000_0000, architecture, [0] * 6) == seccomp._REFUSE | EPERM


def test_unix_sockets_are_for_libreoffice() -> None:
    column, _, architecture = seccomp._MACHINES["x86_64"]
    for office, allowed in ((True, {socket.AF_UNIX}), (False, set())):
        calls = seccomp.program_calls(office=office)
        code, number = seccomp.filter_of(calls, column, architecture), seccomp.program_calls(office=True)["socket"][0]
        answers = {family: answer_of(code, number, architecture, [family] + [0] * 5) for family in range(64)}
        assert {family for family, answer in answers.items() if answer == seccomp._ALLOW} == allowed


def answer_of(code: bytes, number: int, architecture: int, arguments: list[int]) -> int:
    """What the kernel would answer to a call: a reading of the few instructions that filters use."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments)
    accumulator, position = 0, 0
    while True:
        kind, yes, no, value = struct.unpack_from("=HBBI", code, 8 * position)
        position += 1
        if kind == seccomp._RETURN:
            return int(value)
        if kind == seccomp._LOAD:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == seccomp._AND:
            accumulator &= value
        else:
            holds = accumulator == value if kind == seccomp._IF_EQUAL else accumulator > value
            position += yes if holds else no


def test_a_worker_names_the_filter_if_the_system_refuses_it() -> None:
    code = (
        "import ctypes, runpy; from worker.parse.sandbox import seccomp; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0);"
        "assert seccomp.restrict(seccomp.program_calls(office=False));"
        "runpy.run_path('worker/parse/sandbox/confine.py', run_name='__main__')"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip().endswith("Landlock, seccomp")
