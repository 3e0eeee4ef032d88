"""Whether there is any work for which the sweep must watch closely, and when it last did."""

from __future__ import annotations

from datetime import timedelta

from worker.state.postgres import Pool, autocommit, load

_SQL = load("open_work")


def any_open(pool: Pool, ahead: timedelta) -> bool:
    """Whether a task, a lease or a tree is open, or a run is due within `ahead`."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["any_open"], {"ahead": ahead}).fetchone()
        return bool(row and row[0])


def is_sweep_late(pool: Pool, after: timedelta) -> bool:
    """Whether the last sweep began more than `after` ago, while a task is open for as long."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["is_sweep_late"], {"after": after}).fetchone()
        return bool(row and row[0])


def swept(pool: Pool) -> None:
    """Note that a worker sweeps now."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["swept"])
