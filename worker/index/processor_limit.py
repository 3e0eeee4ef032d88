"""Limits the processor time of work in this process, such as cutting one file."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from worker.parse.limits import too_large

#: Seconds of processor time between checks once the limit is reached.
_RECHECK_SECONDS = 1.0

Result = TypeVar("Result")


class _SpentError(BaseException):
    """The time is up. Not an `Exception`, so that no parser mistakes it for a malformed file."""


def run_limited(seconds: float, work: Callable[[], Result]) -> Result:
    """Run `work` within `seconds` of this thread's processor time. Raises `FileError` (`too_large`).

    A signal interrupts Python and `re`. If another library runs longer, the lease kills its process. Only the main
    thread, which does the work in pool processes, gets signals; other threads have no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    until, is_over = time.thread_time() + seconds, False

    def interrupt(*_: object) -> None:
        # the timer counts all threads, and fires again in case a library swallowed the error
        if not is_over and time.thread_time() >= until:
            raise _SpentError

    previous = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds, _RECHECK_SECONDS)
    try:
        try:
            return work()
        finally:
            is_over = True
    except _SpentError:
        raise too_large(f"Reading and chunking the file takes longer than PARSE_SECONDS ({seconds:g} s)") from None
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
