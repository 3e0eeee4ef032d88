"""What this worker process holds open."""

from __future__ import annotations

import functools

from worker.app import settings
from worker.machine.freed_memory import IdleProcess
from worker.resources import Resources

#: Within its `work` runs what frees so much memory that this process should not keep it.
idle = IdleProcess()


@functools.cache
def resources() -> Resources:
    """Return this process's connections. First called in a task, so after the fork."""
    return Resources(settings)
