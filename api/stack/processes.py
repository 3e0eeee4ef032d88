"""Programs and their processes: started on a leash, with a pid file, a log and a lock; stopped step by step."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

from worker.machine.privacy import OTHERS

LEASH = Path(__file__).with_name("leash.py")

#: A log that is larger when its program starts becomes NAME.log.1; bytes.
LOG_LIMIT = 20_000_000

#: A traceback in a line of `worker.logs`, with its line breaks and quotes escaped; and what is printed of a line.
_TRACEBACK = re.compile(r' exception="((?:[^"\\]|\\.)*)"')
_LONGEST_LINE = 300

#: How long a new process waits for the last one of its name to be gone, seconds.
HANDOVER = 15.0

#: Between two looks at a process, seconds.
TICK = 0.05

#: Servers get ports below the range from which Linux takes outgoing ones, so that they find them free after a restart.
SERVER_PORTS = range(20_000, 32_000)


#: Bytes of free space that starting takes, with a segment of Postgres' log.
NEEDED = 64 * 1024**2


class StackError(RuntimeError):
    """The embedded stack cannot do what was asked; the message names the remedy or the log to read."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user a program runs as. `reach`: it may pass directories that are closed to that user."""

    uid: int
    gid: int
    reach: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how to tell that it is ready. `ready` is asked often and answers within a second."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    cwd: Path
    env: Mapping[str, str]
    account: Account | None = None
    #: Signals and the seconds each is given before the next; SIGKILL comes last by itself.
    stop: tuple[tuple[Signals, float], ...] = ((SIGTERM, 10.0),)
    #: What it gets when its parent dies.
    orphaned: Signals = SIGKILL
    #: Programs of a lower rank are stopped first.
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    """A program with the address under which others find it, and what the user should know about it."""

    program: Program
    url: str
    note: str = ""


@dataclass(slots=True)
class Process:
    """A started program."""

    program: Program
    home: Path
    child: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)

    def ended(self) -> bool:
        """Whether it is gone; what it left behind in its session goes with it."""
        if self.child.returncode is not None:
            return True
        if self.child.poll() is None:
            return False
        self._signal_session(SIGKILL)
        _pid_file(self.home, self.program.name).unlink(missing_ok=True)
        return True

    def signal(self, number: Signals) -> None:
        """Send to the process, or with SIGKILL to its whole session."""
        if number == SIGKILL:
            self._signal_session(number)
        else:
            self.child.send_signal(number)

    def _signal_session(self, number: Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says PermissionError of a group of zombies
            os.killpg(self.child.pid, number)


def log_file(home: Path, name: str) -> Path:
    """Where the program's output goes."""
    return home / "log" / f"{name}.log"


def last_lines(home: Path, name: str, count: int = 8) -> str:
    """The end of the program's log, indented; of a traceback in one line only the error."""
    return "\n".join(f"    | {_error_of(line)}" for line in _last_lines(home, name)[-count:])


def cause(home: Path, name: str, code: int) -> str:
    """Why the program ended with this code, in one line: the signal, else the last that its log says."""
    if code < 0:
        return f"{Signals(-code).name} ended it"
    said = (_error_of(line).strip() for line in reversed(_last_lines(home, name)))
    return next(filter(None, said), f"it ended with {code}").removesuffix(".")


def _last_lines(home: Path, name: str) -> list[str]:
    with log_file(home, name).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 65_536))
        return log.read().decode(errors="replace").splitlines()


def _error_of(line: str) -> str:
    """The last line of the traceback that a structured line holds, else the line; a long one is cut."""
    found = _TRACEBACK.search(line)
    text = found[1].replace('\\"', '"').rpartition("\\n")[2] if found else line
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - takes the descriptor
            file.write(text)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _pid_file(home: Path, name: str) -> Path:
    return home / "run" / f"{name}.pid"


def start(program: Program, home: Path) -> Process:
    """Start a program. The starting thread must live as long as it should: Linux ends it with that thread.

    Raises StackError if a process of that name still lives here.
    """
    for directory in ("run", "log"):
        (home / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    with _log(log_file(home, program.name)) as log, _lock(home, program.name) as lock:
        # a session of its own keeps the terminal's Ctrl-C from it; only we decide in which order programs end
        child = subprocess.Popen(
            _leashed(program.command, program.account, program.orphaned),
            cwd=program.cwd,
            env=program.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock,),
            umask=OTHERS,
        )
    process = Process(program, home, child)
    try:
        # whole or not at all: an empty one, on a full disk, would name no process
        write_private(_pid_file(home, program.name), f"{child.pid}\n")
    except OSError:
        # without a file nobody would know of it, and it would hold the program's lock
        process.signal(SIGKILL)
        child.wait()
        raise
    return process


def _leashed(command: tuple[str, ...], account: Account | None, orphaned: Signals) -> list[str]:
    user = [str(account.uid), str(account.gid), str(int(account.reach))] if account else ["-", "-", "0"]
    return [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(int(orphaned)), *user, *command]


def run_once(command: tuple[str, ...], account: Account | None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end as `account`, with an empty environment."""
    return subprocess.run(
        _leashed(command, account, SIGKILL),
        cwd=cwd,
        env={"PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


@contextmanager
def _log(path: Path) -> Iterator[int]:
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    with _private(path) as log:
        yield log


@contextmanager
def _lock(home: Path, name: str) -> Iterator[int]:
    """Hold the program's lock, which its processes inherit: it is free when the last of them is gone, however."""
    with _private(home / "run" / f"{name}.lock") as lock:
        if not wait_until(lambda: try_lock(lock), HANDOVER):
            raise StackError(f"{name} of an earlier run still runs{_which(home, name)}: end it, then start again.")
        yield lock


@contextmanager
def _private(path: Path) -> Iterator[int]:
    """A file that only its owner can read, open for appending."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def try_lock(descriptor: int) -> bool:
    """Take the lock if nobody else, in any process, holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _which(home: Path, name: str) -> str:
    with suppress(OSError):
        pid = _pid_file(home, name).read_text().strip()
        return f" as pid {pid}" if pid else ""
    return ""


def end_orphan(home: Path, name: str) -> None:
    """End what an earlier supervisor left running; on Linux that has happened by itself.

    Only for the holder of the stack's own lock: nobody else may know that the process is nobody's.
    """
    try:
        pid = int(_pid_file(home, name).read_text())
        lock = (home / "run" / f"{name}.lock").open("ab")
    except (OSError, ValueError):
        return
    with lock:
        if not wait_until(lambda: try_lock(lock.fileno()), 5.0):
            with suppress(ProcessLookupError):
                os.killpg(pid, SIGKILL)


def wait_until(holds: Callable[[], bool], seconds: float, give_up: Callable[[], bool] = lambda: False) -> bool:
    """Ask until it holds; False when the seconds are over or `give_up` says so."""
    deadline = time.monotonic() + seconds
    while not holds():
        if give_up() or time.monotonic() > deadline:
            return False
        time.sleep(TICK)
    return True


def stop(processes: Collection[Process], hurry: Callable[[], bool] = lambda: False) -> None:
    """End processes together, each by its own steps; under `hurry` a step is given one second at most."""
    for step in range(max((len(process.program.stop) for process in processes), default=0)):
        steps = [(process, process.program.stop[step]) for process in processes if _has_step(process, step)]
        for process, (number, _) in steps:
            process.signal(number)
        _wait_for_end([process for process, _ in steps], max((grace for _, (_, grace) in steps), default=0.0), hurry)
    for process in processes:
        if not process.ended():
            process.signal(SIGKILL)
    wait_until(lambda: all(process.ended() for process in processes), 10.0)


def _has_step(process: Process, step: int) -> bool:
    return step < len(process.program.stop) and not process.ended()


def _wait_for_end(processes: Collection[Process], grace: float, hurry: Callable[[], bool]) -> None:
    def gone() -> bool:
        return all(process.ended() for process in processes)

    if not wait_until(gone, grace, give_up=hurry) and hurry():
        wait_until(gone, min(grace, 1.0))


@contextmanager
def running(program: Program, home: Path, patience: float = 60.0) -> Iterator[Process]:
    """Run a program without a supervisor, from ready to stopped. Raises StackError if it does not get ready."""
    process = start(program, home)
    try:
        if not wait_until(program.ready, patience, give_up=process.ended):
            raise StackError(not_ready(program.name, home, process.child.returncode))
        yield process
    finally:
        stop([process])


def not_ready(name: str, home: Path, code: int | None = None) -> str:
    """What to tell when a program does not start; `code` is what it ended with, None if it still runs."""
    log = log_file(home, name)
    if code is not None:
        return f"{name} does not start: {cause(home, name, code)}. Its log is {log}"
    return f"{name} does not start; its log, {log}, ends with\n{last_lines(home, name)}"


def free_port(preferred: int, host: str = "127.0.0.1") -> int:
    """The preferred port, or the next one that is free. Raises StackError if there is none among a hundred."""
    for port in range(preferred, min(preferred + 100, 65_536)):
        if _is_free(host, port):
            return port
    raise StackError(f"No free port from {preferred} on; name another one.")


def server_port() -> int:
    """A free port for a server that nobody looks for by number."""
    return free_port(secrets.choice(SERVER_PORTS))


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def which(*names: str) -> str | None:
    """The first of these programs that is on PATH."""
    return next((path for name in names if (path := shutil.which(name))), None)
