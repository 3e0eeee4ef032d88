"""What this worker process holds open."""

from __future__ import annotations

import functools

from worker.app import settings
from worker.resources import Resources


@functools.cache
def resources() -> Resources:
    """Return this process's connections. First called in a task, so after the fork."""
    return Resources(settings)
