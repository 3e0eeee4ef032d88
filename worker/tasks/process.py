"""What this worker process holds open, and under which name others know it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from uuid import UUID

from worker.app import settings
from worker.hosts.presence import Presence
from worker.hosts.reach import reached
from worker.machine.freed_memory import IdleProcess
from worker.resources import Resources

#: Within its `work` runs what frees so much memory that this process should not keep it.
idle = IdleProcess()


@functools.cache
def resources() -> Resources:
    """Return this process's connections. First called in a task, so after the fork."""
    return Resources(settings)


class _Registry:
    """The place of this worker in the registry of hosts. The pool's processes inherit it."""

    presence: Presence | None = None


_registry = _Registry()


def enter_registry(node: str, queues: Sequence[str]) -> None:
    """Note this worker in the registry of hosts."""
    _registry.presence = Presence(settings, "worker", node=node, queues=queues)
    _registry.presence.note()


def stay_in_registry() -> None:
    """Note this worker from now on, and what it reaches."""
    if _registry.presence is not None:
        _registry.presence.keep(reach=functools.partial(reached, settings))


def me() -> UUID | None:
    """The id of this worker in the registry of hosts; None in a test without a worker."""
    return None if _registry.presence is None else _registry.presence.id
