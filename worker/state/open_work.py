"""Whether there is any work for which the sweep must watch closely, and when it last did."""

from __future__ import annotations

from datetime import timedelta

from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

_SQL = load("open_work")


def any_open(pool: Pool, ahead: timedelta) -> bool:
    """Whether a task, a lease or a tree is open, or a run is due within `ahead`."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_open"], {"ahead": ahead})


def is_sweep_late(pool: Pool, after: timedelta) -> bool:
    """Whether the last sweep began more than `after` ago, while a task is open for as long."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["is_sweep_late"], {"after": after})


def swept(pool: Pool) -> None:
    """Note that a worker sweeps now."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["swept"])
