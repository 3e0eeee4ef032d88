"""Niceness among threads, and among sessions."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path

#: Attempts to set a session's niceness, and the most seconds between two. Linux accepts ten a second, of all users.
_ATTEMPTS, _PAUSE_SECONDS = 100, 1.0


def make_thread_nicer(by: int) -> None:
    """Raise the niceness of this thread. Other systems than Linux have one for whole processes only."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + by)


def share_with_session(pid: int) -> None:
    """Give the session that a process leads the niceness of the process.

    A Linux kernel with automatic groups first shares the processors between sessions. There niceness counts only
    within a session, and each program of a stack leads one of its own. Does nothing elsewhere.

    Does not wait: if Linux refuses because others asked just before, a thread asks again.
    """
    if sys.platform == "linux" and not _share(pid):
        threading.Thread(target=_share_later, args=(pid,), daemon=True).start()


def _share_later(pid: int) -> None:
    for _ in range(_ATTEMPTS):
        time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - only spreads the attempts of several processes
        if _share(pid):
            return
    # helpers, which import this module, start without it
    import structlog

    structlog.get_logger().warning(
        "the system did not accept the niceness of a session; it has the processors of a usual one", pid=pid
    )


def _share(pid: int) -> bool:
    """Return whether nothing is left to do."""
    try:
        if os.getsid(pid) == pid:
            group, niceness = Path(f"/proc/{pid}/autogroup"), str(os.getpriority(os.PRIO_PROCESS, pid))
            if group.read_text().split()[-1:] != [niceness]:
                group.write_text(f"{niceness}\n")
    except BlockingIOError:
        return False
    except OSError:
        # without such groups the file is missing, and the process may have ended
        return True
    return True
