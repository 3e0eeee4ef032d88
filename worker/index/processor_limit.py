"""A limit of processor time for work in this process, such as cutting one file."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from worker.parse.limits import too_large

#: Seconds of processor time after which the limit is looked at again.
_AGAIN = 1.0

Result = TypeVar("Result")


class _SpentError(BaseException):
    """The time is spent. No `Exception`, so that no parser takes it for a malformed file."""


def limited(seconds: float, work: Callable[[], Result]) -> Result:
    """Do `work` within so much processor time of this thread. Raises `FileError` (`too_large`).

    A signal interrupts Python and `re`; what stays longer in another library is ended with its process, by the lease.
    Only the main thread, in which pool processes work, gets signals; other threads have no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    until, is_over = time.thread_time() + seconds, False

    def interrupt(*_: object) -> None:
        # the timer counts all threads, and comes again in case a library swallowed the error
        if not is_over and time.thread_time() >= until:
            raise _SpentError

    previous = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    try:
        try:
            return work()
        finally:
            is_over = True
    except _SpentError:
        raise too_large(f"Reading and cutting the file takes longer than PARSE_SECONDS ({seconds:g} s)") from None
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
