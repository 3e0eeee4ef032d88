"""Ties a process to the one that started it."""

from __future__ import annotations

import ctypes
import os
import sys
from signal import Signals

_PR_SET_PDEATHSIG = 1


def end_with(parent: int, number: Signals) -> None:
    """Receive this signal once the parent ends (on Linux). Raises `SystemExit` if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise SystemExit
