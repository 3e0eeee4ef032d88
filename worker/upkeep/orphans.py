"""Deletes objects that no node refers to: few of them at once, otherwise by the sweep."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import structlog

from schemas.errors import SourceError
from worker.objects.object_store import ObjectStore
from worker.resources import Resources
from worker.state.content import orphans
from worker.state.exclusive import try_exclusive
from worker.stores import OBJECTS

#: Name of the installation-wide lock, which one process at a time can hold.
STRAYS = "strays"
#: Maximum number of objects that a request deletes itself while its caller waits.
MAX_AT_ONCE = 200
#: Objects deleted between two checks of the time.
PAGE = 200
#: Objects deleted in parallel.
PARALLEL = 8

log = structlog.get_logger()


def drop(resources: Resources, keys: Sequence[str]) -> None:
    """Delete objects that no node refers to. The sweep deletes the rest if there are many, or if this fails."""
    if not keys:
        return
    deleted = []
    with suppress(psycopg.OperationalError):
        with suppress(SourceError):
            # check first: a commit whose answer was lost may have succeeded
            for key in orphans.take(resources.pool, keys[:MAX_AT_ONCE]):
                resources.objects.delete(key)
                deleted.append(key)
        orphans.forget(resources.pool, deleted)


def delete_strays(resources: Resources, seconds: float) -> tuple[int, bool]:
    """Delete due objects until the time is up. Returns the number of objects and whether there may be more."""
    done, deadline = 0, time.monotonic() + seconds
    if OBJECTS.name in resources.refused():
        # a worker that sees the directory deletes them
        return 0, False
    with try_exclusive(resources.settings.session_url, STRAYS) as free:
        while free and (keys := orphans.give_up(resources.pool, PAGE)):
            deleted = _discard(resources.objects, keys)
            orphans.forget(resources.pool, deleted)
            orphans.postpone(resources.pool, sorted({*keys} - {*deleted}))
            done += len(deleted)
            if time.monotonic() > deadline or not deleted:
                return done, bool(deleted)
    return done, False


def _discard(objects: ObjectStore, keys: Iterable[str]) -> list[str]:
    """Delete objects and return the keys of those that are gone."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return [key for key in pool.map(lambda key: _discard_one(objects, key), keys) if key is not None]


def _discard_one(objects: ObjectStore, key: str) -> str | None:
    try:
        objects.discard(key)
    except SourceError as error:
        log.warning("an object that no node refers to is not deleted yet", code=error.code, reason=error.message)
        return None
    return key
