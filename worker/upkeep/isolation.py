"""Isolates the failure of work on one index from work on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
import structlog
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled

#: Postgres errors for a locked row or a slow statement; they do not end the sweep.
LOCKED = (LockNotAvailable, DeadlockDetected, QueryCanceled)

T = TypeVar("T")

log = structlog.get_logger()


@contextmanager
def isolate_failure(event: str, **ids: str) -> Iterator[None]:
    """Log the failure of work on one index and continue, unless Postgres itself fails."""
    try:
        yield
    except LOCKED as error:
        log.warning(event, **ids, error=str(error))
    except psycopg.OperationalError:
        raise
    except Exception:  # a bug with one index must not delay or starve the others
        log.exception(event, **ids)


def unless_locked(work: Callable[[], T]) -> T | None:
    """Run `work`. Returns None if another transaction holds its task or index; the next round tries again."""
    try:
        return work()
    except LockNotAvailable as error:
        log.warning("locked; left to the next sweep", error=str(error))
        return None
