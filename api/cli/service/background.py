"""Runs the embedded stack in the background, where it outlives the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from signal import SIGINT, SIGTERM
from threading import current_thread, main_thread
from urllib.parse import urlsplit

from api.cli.invocation import VerbFailed
from api.stack.processes import NEEDED_BYTES
from api.stack.record import ROOT, environment, owner, url_of

#: Seconds until a started stack must answer.
START_SECONDS = 180.0
#: Seconds that a stack may take to stop.
STOP_SECONDS = 120.0
#: Seconds between two looks.
LOOK_SECONDS = 0.2
#: Lines of the log that a message shows.
SHOWN_LINES = 6
#: What the supervisor says of a start that somebody may have to help.
TROUBLE = (" keeps exiting: ", " is not ready yet: ", " Waiting for it.")

Say = Callable[[str], None]


def log_file(home: Path) -> Path:
    """The log of a stack in the background."""
    return home / "log" / "stack.log"


def start(home: Path, say: Say, meanwhile: Callable[[], object] = lambda: None) -> str:
    """Start the stack, which outlives this process. Returns its address once it answers. Raises `VerbFailed`.

    `meanwhile` is called once it has been started.
    """
    say(f"Starting Foldex in the background; `foldex down` stops it. Its data and logs are in {home}")
    child = None
    try:
        with _deferred_interrupt():
            child = _start(home)
        meanwhile()
        return _address(child, home, say)
    except KeyboardInterrupt:
        # nobody has asked for a stack but the command that ends here
        if child is not None and child.poll() is None:
            say("Stopping what was started …")
            child.terminate()
            child.wait()
        raise


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the block has ended: within `Popen` it would leave a child that nobody knows."""
    # another handler belongs to somebody else; SIG_IGN is inherited by the child
    if signal.getsignal(SIGINT) is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    pressed: list[int] = []
    signal.signal(SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def _address(child: subprocess.Popen[bytes], home: Path, say: Say) -> str:
    deadline, told = time.monotonic() + START_SECONDS, 0
    while time.monotonic() < deadline:
        told = _tell_trouble(home, told, say)
        with suppress(OSError):
            stack = environment(home)
            if stack and _is_ready(url_of(stack)):
                return url_of(stack)
        # it also ends if another process has just started the stack
        if child.poll() is not None and owner(home) is None:
            raise VerbFailed(f"Foldex could not start: {_reason(home)} Its log is {log_file(home)}.")
        time.sleep(LOOK_SECONDS)
    raise VerbFailed(f"Foldex did not answer within {START_SECONDS:.0f} s; see the logs in {home / 'log'}.")


def _tell_trouble(home: Path, told: int, say: Say) -> int:
    """Say what keeps the stack from its start, after the first `told` lines. Returns how many have been said."""
    lines = [line.strip() for line in _lines(home) if any(trouble in line for trouble in TROUBLE)]
    for line in lines[told:]:
        say(line)
    return len(lines)


def _lines(home: Path) -> list[str]:
    return log_file(home).read_text(errors="replace").splitlines()


def _start(home: Path) -> subprocess.Popen[bytes]:
    log = log_file(home)
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise VerbFailed(
            f"{home} cannot be written ({error.strerror}): run as its owner, or set FOLDEX_HOME."
        ) from error
    try:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "api", "up"],
            cwd=ROOT,
            env={**os.environ, "FOLDEX_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            # the terminal's Ctrl-C and its end reach only this process
            start_new_session=True,
        )
    finally:
        os.close(handle)


def stop(home: Path) -> bool:
    """Stop the stack in `home` and return once it has ended. Returns False if none runs. Raises `VerbFailed`."""
    pid = owner(home)
    if pid is None:
        return False
    try:
        os.kill(pid, SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise VerbFailed(f"Foldex belongs to another user (pid {pid}); stop it as that user.") from error
    deadline = time.monotonic() + STOP_SECONDS
    while owner(home) is not None:
        if time.monotonic() > deadline:
            raise VerbFailed(
                f"Foldex (pid {pid}) has not stopped within {STOP_SECONDS:.0f} s; `kill -9 {pid}` ends it without "
                f"loss, and the next start ends what it leaves. Its logs are in {home / 'log'}."
            )
        time.sleep(LOOK_SECONDS)
    return True


def _is_ready(url: str) -> bool:
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status < 300  # noqa: PLR2004 - any success
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _reason(home: Path) -> str:
    """The error that the stack ended with, a disk too full for its log, or else the end of the log."""
    from worker.machine.disk_space import free_bytes, full_message

    lines = [line.strip() for line in _lines(home) if line.strip()]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    if not errors and free_bytes(home) < NEEDED_BYTES:
        return full_message(home, NEEDED_BYTES)
    return errors[-1] if errors else " ".join(lines[-SHOWN_LINES:])
