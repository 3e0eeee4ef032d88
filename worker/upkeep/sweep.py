"""Keeps work going when messages are lost and processes die. Any worker runs it, one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable

from worker.app import BULK, send
from worker.resources import Resources
from worker.state import open_work, silent_backends
from worker.state.content import orphans
from worker.state.exclusive import exclusive_connection, keep_lock
from worker.state.index import drift, embedding_cache, files
from worker.upkeep import deletions, open_tasks, tree_upkeep

#: Name of the installation-wide lock, which one process at a time can hold.
SWEEP = "sweep"
#: Seconds that a sweep may hold the lock without checking it, far more than all steps take.
MAX_SWEEP_SECONDS = 10
#: Seconds after which the next step first checks whether this sweep still has the lock.
LOOK_SECONDS = 1.0

Step = Callable[[Resources], int]

log = structlog.get_logger()


def sweep(resources: Resources) -> dict[str, object]:
    """Run one round, unless another process is sweeping.

    No step waits long for a lock: see `worker.state.connections`. `resources` come from `Resources.sweeping`.
    """
    steps: dict[str, Step] = {
        "noted": _note,
        # this comes first, because it frees rows that the other steps need
        "silent": _end_silent,
        "blocking": _end_blocking,
        "blockers": _named.log_new,
        "expired": _return_expired,
        "followed": open_tasks.start_due,
        "woken": open_tasks.wake_tasks,
        "stalled": open_tasks.restart_stalled,
        "tidied": open_tasks.tidy,
        "trees": tree_upkeep.reconcile,
        "building": tree_upkeep.wake,
        "checks": _send_checks,
        "deleted": deletions.delete_vectors,
        "summaries": tree_upkeep.delete_vectors,
        "purged": deletions.purge_indexes,
        "names": deletions.check_names,
        "strays": _send_strays,
        "evictions": _send_eviction,
    }
    with exclusive_connection(resources.settings.session_url, SWEEP, seconds=MAX_SWEEP_SECONDS) as lock:
        if lock is None:
            return {"skipped": "another worker sweeps"}
        turn = _SweepLock(lock)
        return {name: _attempt(turn, name, step, resources) for name, step in steps.items()}


class _SweepLock:
    """The lock of a sweep, which the server releases if the process is stopped."""

    def __init__(self, lock: Connection[Any]) -> None:
        self._lock, self._held_at = lock, time.monotonic()

    def check(self) -> None:
        """Raise `OperationalError` if this sweep took so long that another process may have the lock."""
        if time.monotonic() - self._held_at > LOOK_SECONDS:
            keep_lock(self._lock)
            self._held_at = time.monotonic()


def _attempt(turn: _SweepLock, name: str, step: Step, resources: Resources) -> int | str:
    turn.check()
    try:
        return step(resources)
    except LockNotAvailable as error:
        log.warning("a step of the sweep met a lock; the next round continues", step=name, error=str(error))
        return "held"
    except psycopg.OperationalError:
        raise
    except Exception as error:  # a bug in one step must not stop the others
        log.exception("a step of the sweep failed", step=name)
        return type(error).__name__


def _note(resources: Resources) -> int:
    open_work.note_sweep(resources.pool)
    return 0


def _end_silent(resources: Resources) -> int:
    ended = silent_backends.reap(resources.pool)
    if ended:
        log.warning("connections of silent processes ended", backends=ended)
    return len(ended)


def _end_blocking(resources: Resources) -> int:
    ended = silent_backends.end_blocking(resources.pool)
    if ended:
        log.warning("idle transactions that held up others ended", backends=ended)
    return len(ended)


class _Named:
    """The sessions that block others, as this process last logged them."""

    seen: frozenset[tuple[int, object]] = frozenset()

    def log_new(self, resources: Resources) -> int:
        """Log each session once."""
        found = {(each.pid, each.since): each for each in silent_backends.blockers(resources.pool)}
        for key in found.keys() - self.seen:
            log.warning("a session holds up others", session=str(found[key]))
        self.seen = frozenset(found)
        return len(found)


_named = _Named()


def _return_expired(resources: Resources) -> int:
    expired = files.return_expired(resources.pool)
    if expired:
        crashed = [path for _, path, crashes in expired if crashes]
        log.warning("leases of a dead worker returned", files=len(expired), crashed=crashed)
    return len(expired)


def _send_checks(resources: Resources) -> int:
    """Send checks of namespaces that were not compared for long, or that a search found empty."""
    due = drift.take_due(resources.pool)
    for index_id in due:
        send("foldex.check", index_id, queue=BULK, shown=f"index {index_id}", quiet=True)
    return len(due)


def _send_strays(resources: Resources) -> int:
    """Send a task that deletes objects without a node."""
    if not orphans.expect_run(resources.pool):
        return 0
    send("foldex.strays", queue=BULK, shown="objects that no node refers to", quiet=True)
    return 1


def _send_eviction(resources: Resources) -> int:
    """Send a task that evicts from the cache; a bulk worker does it, since it may take seconds."""
    due = embedding_cache.eviction_due(resources.pool)
    if due:
        send("foldex.evict", queue=BULK, shown="embedding cache", quiet=True)
    return int(due)
