"""The claim of a worker on the build of one tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from psycopg import Connection

from worker.index.lease import Lease, kept
from worker.state.tree import trees


class TreeLease(Lease):
    """A lease on a build; see `Lease`."""

    def beat(self, connection: Connection[Any], task_id: UUID) -> bool:
        """Renew the lease of the tree whose id is `task_id`."""
        return trees.beat(connection, task_id, self.owner)


@contextmanager
def tree_leased(database_url: str, tree_id: UUID) -> Iterator[TreeLease]:
    """Open a lease that is renewed until the block ends."""
    with kept(TreeLease(), database_url, tree_id) as lease:
        yield lease
