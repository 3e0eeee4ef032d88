"""A worker's claim on the build of one tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

from worker.index.lease import Lease, keep_renewed
from worker.state.address import Address
from worker.state.exclusive import keep_lock
from worker.state.tree import trees


class TreeLease(Lease):
    """A lease on a build; see `Lease`."""

    def __init__(self, lock: Connection[Any] | None = None) -> None:
        """Create a lease. The server ends the connection `lock` without statements: a stopped process loses it."""
        super().__init__()
        self._lock = lock

    def beat(self, connection: Connection[Any], task_id: UUID) -> bool:
        """Renew the lease of the tree whose id is `task_id`."""
        if self._lock is not None:
            with suppress(psycopg.Error):
                keep_lock(self._lock)
        return trees.beat(connection, task_id, self.owner)


@contextmanager
def tree_leased(database: Address, tree_id: UUID, lock: Connection[Any]) -> Iterator[TreeLease]:
    """Open a lease that is renewed until the block ends, and keep the lock's connection alive."""
    with keep_renewed(TreeLease(lock), database, tree_id) as lease:
        yield lease
