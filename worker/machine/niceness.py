"""Niceness among threads, and among sessions."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

#: Attempts to set a session's niceness, and the seconds between two: Linux lets users do that ten times a second.
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.12


def make_thread_nicer(by: int) -> None:
    """Raise the niceness of this thread. Other systems than Linux have one for whole processes only."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + by)


def share_with_session(pid: int) -> None:
    """Give the session that a process leads the niceness of the process.

    A Linux kernel with automatic groups first shares the processors between sessions. There niceness counts only
    within a session, and each program of a stack leads one of its own. Does nothing elsewhere.
    """
    if sys.platform != "linux":
        return
    # without such groups the file is missing, and the process may have ended
    with suppress(OSError):
        if os.getsid(pid) == pid:
            _write(Path(f"/proc/{pid}/autogroup"), f"{os.getpriority(os.PRIO_PROCESS, pid)}\n")


def _write(file: Path, niceness: str) -> None:
    for _ in range(_ATTEMPTS):
        with suppress(BlockingIOError):
            file.write_text(niceness)
            return
        time.sleep(_PAUSE_SECONDS)
