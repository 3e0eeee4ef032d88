"""Finds tables that crash the processes that open them: some damage makes Lance abort without an exception.

Each process records the tables that it works on in its own file. A process that dies in the middle leaves that file.
The next one to start then has another process, which may die of it, read those tables first.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGABRT, SIGBUS, SIGILL, SIGSEGV
from threading import Lock
from uuid import uuid4

import structlog

log = structlog.get_logger()

#: The prefix of these files' names.
PREFIX = ".calls-"
#: Bytes for the name of a table, padded with zeros. A name has at most 128.
SLOT = 192
#: Maximum number of concurrent calls of a process that are recorded.
SLOTS = 64
#: Seconds of reading after which a table counts as readable; the next call verifies it.
READ_SECONDS = 120.0
#: Exit signals of a process that a table's damage crashed. SIGKILL may have other causes, such as too little memory.
_CRASHES = {-SIGABRT, -SIGSEGV, -SIGBUS, -SIGILL}
#: Reads all of a table and its indexes.
_READ = """
import sys
import lance
dataset = lance.dataset(sys.argv[1])
for _ in dataset.scanner(batch_size=1024, batch_readahead=1).to_batches():
    pass
for index in dataset.describe_indices():
    dataset.prewarm_index(index.name)
"""


class OpenCalls:
    """The calls of this process on tables of a directory. Threads may share it.

    `set_aside` is called with the name of a table that crashes processes.
    """

    def __init__(self, directory: Path, set_aside: Callable[[str], object]) -> None:
        self._directory, self._set_aside = directory, set_aside
        self._lock = Lock()
        self._file: int | None = None
        self._is_begun = False
        self._free = list(range(SLOTS))

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Record that this process works on a table until the block ends."""
        file, slot = self._begin()
        if file is None or slot is None:
            yield
            return
        try:
            with suppress(OSError):
                os.pwrite(file, name.encode().ljust(SLOT, b"\0"), SLOT * slot)
            yield
        finally:
            with suppress(OSError):
                os.pwrite(file, bytes(SLOT), SLOT * slot)
            self._free.append(slot)

    def _begin(self) -> tuple[int | None, int | None]:
        """Return the file of this process, and a free place in it."""
        with self._lock:
            if not self._is_begun and self._directory.is_dir():
                self._is_begun = True
                # without space or permission, calls are not recorded
                with suppress(OSError):
                    self._check_crashed()
                    path, self._file = _own_file(self._directory)
                    weakref.finalize(self, _close, os.getpid(), path, self._file)
            return self._file, self._free.pop() if self._free else None

    def _check_crashed(self) -> None:
        """Have another process read the tables on which earlier processes worked when they died."""
        suspects: set[str] = set()
        for path in self._directory.glob(f"{PREFIX}*"):
            with path.open("rb") as file, suppress(BlockingIOError):
                # its process holds the lock as long as it lives
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                content = file.read(SLOT * SLOTS)
                suspects |= {content[at : at + SLOT].rstrip(b"\0").decode() for at in range(0, len(content), SLOT)}
                _check_all(self._directory, suspects - {""}, self._set_aside)
                # last, so that the next process checks them if this one dies first
                path.unlink(missing_ok=True)


def _check_all(directory: Path, names: set[str], set_aside: Callable[[str], object]) -> None:
    for name in names:
        path = directory / name
        if path.exists() and ends_processes(path):
            log.error("a LanceDB table ends the processes that open it", table=name)
            set_aside(name)


def ends_processes(path: Path) -> bool:
    """Return whether a process that reads all of a table crashes."""
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            (sys.executable, "-I", "-c", _READ, str(path)),
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=READ_SECONDS,
            check=False,
        )
        return done.returncode in _CRASHES
    return False


def _own_file(directory: Path) -> tuple[Path, int]:
    """Create this process's file, locked while it lives, with all its space, so that no full disk refuses a call."""
    path = directory / f"{PREFIX}{uuid4().hex}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.pwrite(file, bytes(SLOT * SLOTS), 0)
    return path, file


def _close(owner: int, path: Path, file: int) -> None:
    """Remove the file of a process that ends outside a call, but not the file of the process it was forked from."""
    if os.getpid() == owner:
        os.close(file)
        path.unlink(missing_ok=True)
