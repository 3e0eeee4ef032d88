"""How long a call keeps the other threads of its process from computing.

An extension may hold the interpreter while it computes. In the API, all callers then wait for one of them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from api.main import SWITCH_SECONDS

#: Seconds between two looks.
_LOOK_SECONDS = 0.001


def longest_hold(act: Callable[[], object]) -> float:
    """The most processor time, in seconds, that this thread took in `act` while another one waited."""
    clock, over = time.pthread_getcpuclockid(threading.get_ident()), threading.Event()
    looks: list[float] = []

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            looks.append(time.clock_gettime(clock))

    thread, before = threading.Thread(target=look), sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    thread.start()
    try:
        looks.append(time.clock_gettime(clock))
        act()
        looks.append(time.clock_gettime(clock))
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)
    looks.sort()
    return max(later - earlier for earlier, later in pairwise(looks))
