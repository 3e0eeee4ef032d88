"""Notices changes in a part of a project's content tree."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from worker.state.index import changes
from worker.state.pool import Pool

#: Minimum seconds between two checks.
CHECK_SECONDS = 1.0
#: Maximum share of time spent checking a tree of nodes.
NODES_SHARE = 0.05


class NodesWatch:
    """A part of the content tree. One query finds whether its rows changed, whichever process wrote them."""

    def __init__(self, pool: Callable[[], Pool], index_id: UUID) -> None:
        self._pool, self._index_id = pool, index_id
        self._due = 0.0

    def look(self) -> None:
        """Check, and record a change at once."""
        began = time.monotonic()
        if began >= self._due:
            changes.look_at_nodes(self._pool(), self._index_id)
            ended = time.monotonic()
            self._due = max(began + CHECK_SECONDS, ended + (ended - began) / NODES_SHARE)

    def close(self) -> None:
        """Do nothing; no handle is held."""
