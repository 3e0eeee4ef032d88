"""Starts programs that end with their parent, with a pid file, a log and a lock, and stops them step by step."""

from __future__ import annotations

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

from api.stack.children import Child
from api.stack.record import try_lock
from worker.machine.privacy import OTHERS

END_WITH_PARENT = Path(__file__).with_name("end_with_parent.py")

#: Bytes of a log above which it becomes NAME.log.1 when its program starts.
MAX_LOG_BYTES = 20_000_000

#: A traceback in a line of `worker.machine.logs`, with its line breaks and quotes escaped.
_TRACEBACK = re.compile(r' exception="((?:[^"\\]|\\.)*)"')
#: Maximum characters of a log line in a message.
_MAX_LINE = 300

#: Seconds that a new process waits for the previous one of its name to end.
HANDOVER_SECONDS = 15.0

#: Seconds between two polls of a process.
POLL_SECONDS = 0.05

#: Server ports lie below Linux's range for outgoing connections, so that they are still free after a restart.
SERVER_PORTS = range(20_000, 32_000)
_chosen_ports: set[int] = set()

#: Bytes of free space needed to start, including a Postgres WAL segment.
NEEDED_BYTES = 64 * 1024**2


class StackError(RuntimeError):
    """The embedded stack failed; the message names the remedy or the log to read."""


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """The user that a program runs as. With `reach`, it may traverse directories that are closed to that user."""

    uid: int
    gid: int
    reach: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `ready` tells whether it is up; it is polled often and returns within about a second."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    cwd: Path
    env: Mapping[str, str]
    account: SystemAccount | None = None
    #: Stop signals, each with the seconds until the next one. SIGKILL always follows.
    stop: tuple[tuple[Signals, float], ...] = ((SIGTERM, 10.0),)
    #: The signal it gets when its parent dies.
    orphaned: Signals = SIGKILL
    #: Programs of a lower rank are stopped first.
    rank: int = 0


#: Starts a program with its log and its lock, given as descriptors. Returns None if the program must start by itself.
Fork = Callable[[Program, int, int], Child | None]


def no_fork(_program: Program, _log: int, _lock: int) -> None:
    """Let each program start by itself."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program with its address, and a note for the user."""

    program: Program
    url: str
    note: str = ""


@dataclass(slots=True)
class Process:
    """A started program."""

    program: Program
    home: Path
    child: Child
    started: float = field(default_factory=time.monotonic)

    def ended(self) -> bool:
        """Whether the process has ended. If so, kills what remains of its session."""
        if self.child.returncode is not None:
            return True
        if self.child.poll() is None:
            return False
        self._signal_session(SIGKILL)
        _pid_file(self.home, self.program.name).unlink(missing_ok=True)
        return True

    def signal(self, number: Signals) -> None:
        """Send a signal to the process; SIGKILL goes to its whole session."""
        if number == SIGKILL:
            self._signal_session(number)
        else:
            self.child.send_signal(number)

    def _signal_session(self, number: Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError for a group of zombies
            os.killpg(self.child.pid, number)


def log_file(home: Path, name: str) -> Path:
    """The file that receives a program's output."""
    return home / "log" / f"{name}.log"


def last_lines(home: Path, name: str) -> str:
    """The last eight lines of a program's log, indented. A one-line traceback is reduced to its error."""
    return "\n".join(f"    | {_error_of(line)}" for line in _last_lines(home, name)[-8:])


def cause(home: Path, name: str, code: int | None) -> str:
    """Why a program ended with this code, in one line: the signal, or else the last line of its log."""
    if code and code < 0:
        return f"{Signals(-code).name} ended it"
    errors = (_error_of(line).strip() for line in reversed(_last_lines(home, name)))
    return next(filter(None, errors), f"it ended with {code}").removesuffix(".")


def _last_lines(home: Path, name: str) -> list[str]:
    with log_file(home, name).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 65_536))
        return log.read().decode(errors="replace").splitlines()


def _error_of(line: str) -> str:
    """The last line of the traceback in a structured log line, or else the line itself; cut if long."""
    traceback = _TRACEBACK.search(line)
    text = traceback[1].replace('\\"', '"').rpartition("\\n")[2] if traceback else line
    return text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}…"


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable only by its owner."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - takes the descriptor
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _pid_file(home: Path, name: str) -> Path:
    return home / "run" / f"{name}.pid"


def start(program: Program, home: Path, fork: Fork = no_fork, stdin: int = subprocess.DEVNULL) -> Process:
    """Start a program, by `fork` if it can.

    The calling thread must outlive the program: Linux ends it with that thread.

    Raises `StackError` if a process of that name still runs in `home`.
    """
    for directory in ("run", "log"):
        (home / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    with _log(log_file(home, program.name)) as log, _lock(home, program.name) as lock:
        child = fork(program, log, lock) or _execute(program, stdin, log, lock)
    process = Process(program, home, child)
    try:
        # atomic: on a full disk a plain write could leave an empty file
        write_private(_pid_file(home, program.name), f"{child.pid}\n")
    except OSError:
        # without a pid file the process could not be found, and it would hold the program's lock
        process.signal(SIGKILL)
        child.wait()
        raise
    return process


def _execute(program: Program, stdin: int, log: int, lock: int) -> Child:
    return subprocess.Popen(
        _ending_with_parent(program.command, program.account, program.orphaned),
        cwd=program.cwd,
        env=program.env,
        stdin=stdin,
        stdout=log,
        stderr=subprocess.STDOUT,
        # shields it from the terminal's Ctrl-C: only this process decides the order in which programs stop
        start_new_session=True,
        pass_fds=(lock,),
        umask=OTHERS,
    )


def _ending_with_parent(command: tuple[str, ...], account: SystemAccount | None, orphaned: Signals) -> list[str]:
    user = [str(account.uid), str(account.gid), str(int(account.reach))] if account else ["-", "-", "0"]
    return [sys.executable, "-I", "-S", str(END_WITH_PARENT), str(os.getpid()), str(int(orphaned)), *user, *command]


def run_once(command: tuple[str, ...], account: SystemAccount | None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end as `account`. Its environment is only a default PATH."""
    return subprocess.run(
        _ending_with_parent(command, account, SIGKILL),
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
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    with _private(path) as log:
        yield log


@contextmanager
def _lock(home: Path, name: str) -> Iterator[int]:
    """Hold the program's lock. Its processes inherit it, so it is free once the last of them ends for any reason."""
    with _private(home / "run" / f"{name}.lock") as lock:
        if not wait_until(lambda: try_lock(lock), HANDOVER_SECONDS):
            raise StackError(
                f"{name} of an earlier run is still running{_pid_note(home, name)}: end it, then start again."
            )
        yield lock


@contextmanager
def _private(path: Path) -> Iterator[int]:
    """Open a file for appending; only its owner can read it."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _pid_note(home: Path, name: str) -> str:
    with suppress(OSError):
        pid = _pid_file(home, name).read_text().strip()
        return f" as pid {pid}" if pid else ""
    return ""


def end_orphan(home: Path, name: str) -> None:
    """End a process that an earlier supervisor left running. On Linux the kernel has already ended it.

    Only for the holder of the stack's lock: without it, the process may belong to a running stack.
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


def wait_until(condition: Callable[[], bool], seconds: float, give_up: Callable[[], bool] = lambda: False) -> bool:
    """Poll until `condition` is true. Returns False after `seconds`, or once `give_up` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if give_up() or time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def stop(processes: Collection[Process], is_forced: Callable[[], bool] = lambda: False) -> None:
    """Stop processes in parallel, each by its own steps. If `is_forced()`, a step gets at most one more second."""
    for step in range(max((len(process.program.stop) for process in processes), default=0)):
        steps = [(process, process.program.stop[step]) for process in processes if _has_step(process, step)]
        for process, (number, _) in steps:
            process.signal(number)
        _wait_for_end(
            [process for process, _ in steps], max((grace for _, (_, grace) in steps), default=0.0), is_forced
        )
    for process in processes:
        if not process.ended():
            process.signal(SIGKILL)
    wait_until(lambda: all(process.ended() for process in processes), 10.0)


def _has_step(process: Process, step: int) -> bool:
    return step < len(process.program.stop) and not process.ended()


def _wait_for_end(processes: Collection[Process], grace: float, is_forced: Callable[[], bool]) -> None:
    def all_ended() -> bool:
        return all(process.ended() for process in processes)

    if not wait_until(all_ended, grace, give_up=is_forced) and is_forced():
        wait_until(all_ended, min(grace, 1.0))


@contextmanager
def running(program: Program, home: Path, patience: float = 60.0) -> Iterator[Process]:
    """Run a program without a supervisor: ready inside the block. Raises `StackError` if it does not get ready."""
    process = start(program, home)
    try:
        if not wait_until(program.ready, patience, give_up=process.ended):
            raise StackError(not_ready(program.name, home, process.child.returncode))
        yield process
    finally:
        stop([process])


def not_ready(name: str, home: Path, code: int | None = None) -> str:
    """The message for a program that does not start. `code` is its exit code, None if it still runs."""
    log = log_file(home, name)
    if code is not None:
        return f"{name} failed to start: {cause(home, name, code)}. Its log is {log}"
    return f"{name} failed to start; its log, {log}, ends with\n{last_lines(home, name)}"


def free_port(preferred: int, host: str = "127.0.0.1") -> int:
    """The first free port from `preferred` on. Raises `StackError` if a hundred ports are taken."""
    for port in range(preferred, min(preferred + 100, 65_536)):
        if _is_free(host, port):
            return port
    raise StackError(f"No port from {preferred} on is free; set another one.")


def server_port() -> int:
    """A random free port for a server whose port number does not matter. Never the same twice: servers start slowly."""
    while (port := free_port(secrets.choice(SERVER_PORTS))) in _chosen_ports:
        pass
    _chosen_ports.add(port)
    return port


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
    """The path of the first of these programs that is on PATH."""
    return next((path for name in names if (path := shutil.which(name))), None)
