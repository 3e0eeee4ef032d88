"""Reports whether any open work needs frequent sweeps, and the age of the last sweep."""

from __future__ import annotations

from datetime import timedelta

from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

#: Seconds without a sweep after which users are warned. A sweep is due each second, or every 12 s without open work. A
#: busy worker takes it later.
UNWATCHED_SECONDS = 30.0
UNWATCHED = (
    f"No worker has looked for work for more than {UNWATCHED_SECONDS:.0f} s; check that the workers, the scheduler "
    "(beat) and the broker run."
)

_SQL = load("open_work")


def any_open(pool: Pool, ahead: timedelta) -> bool:
    """Return whether a task, a lease or a tree is open, or a run is due within `ahead`."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_open"], {"ahead": ahead})


def is_sweep_late(pool: Pool, after: timedelta) -> bool:
    """Return whether the last sweep began more than `after` ago, while a task is open for as long."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["is_sweep_late"], {"after": after})


def sweep_age(pool: Pool) -> float:
    """Return the seconds since the last sweep, or since Postgres' start if that is later; 0 before the first sweep."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["sweep_age"]).fetchone()
    return float(row[0]) if row else 0.0


def is_swept(pool: Pool, within: timedelta) -> bool:
    """Return whether a sweep began within the last `within`."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["is_swept"], {"within": within})


def note_sweep(pool: Pool) -> None:
    """Record that a worker sweeps now."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["swept"])
