"""The open resources of this worker process, and its identity for others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from uuid import UUID

import psycopg
import structlog

from worker.app import settings
from worker.hosts import compare
from worker.hosts.presence import Presence
from worker.hosts.reach import probe_services
from worker.machine.memory.freed_memory import IdleProcess, give_back
from worker.resources import Resources
from worker.state.pool import Pool
from worker.tokens.languages import unpack_model

#: Its `work` wraps work that frees so much memory that this process should not keep it.
idle = IdleProcess()

log = structlog.get_logger()


@functools.cache
def resources() -> Resources:
    """Return this process's connections. First called in a task, so after the fork."""
    return Resources(settings)


class _Registry:
    """The place of this worker in the registry of hosts. The pool's processes inherit it."""

    presence: Presence | None = None


_registry = _Registry()


def enter_registry(node: str, queues: Sequence[str]) -> None:
    """Enter this worker in the registry of hosts."""
    _registry.presence = Presence(settings, "worker", node=node, queues=queues)
    _registry.presence.note()


def stay_in_registry() -> None:
    """Register heartbeats of this worker and its reachable services. Logs differences between it and others."""
    if _registry.presence is None:
        return
    # it stays open for the sweep anyway
    pool = resources().sweeping.pool
    _registry.presence.keep(pool, reach=functools.partial(probe_services, settings))
    # Celery kills a process that does not take work within seconds of its start
    Thread(target=_log_differences, args=(pool,), name="differences", daemon=True).start()


def lacks(names: Sequence[str]) -> bool:
    """Return whether one of these settings may not be set here."""
    return _registry.presence is not None and _registry.presence.lacks(names)


def unpack_language_model() -> None:
    """Create the files of the language model in a thread, if they are missing."""
    Thread(target=_unpack_language_model, name="languages", daemon=True).start()


def _unpack_language_model() -> None:
    unpack_model()
    give_back()


def leave_registry() -> None:
    """Register the end of this worker."""
    if _registry.presence is not None:
        _registry.presence.end()


def _log_differences(pool: Pool) -> None:
    with suppress(psycopg.Error):
        for finding in compare.findings(pool):
            log.warning("hosts differ", finding=str(finding))


def me() -> UUID | None:
    """Return the id of this worker in the registry of hosts; None in a test without a worker."""
    return None if _registry.presence is None else _registry.presence.id
