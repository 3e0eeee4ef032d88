"""The order in which a slice claims files: small ones first, including files listed after the slice began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from worker.index.run import IndexRun
from worker.state.index import files
from worker.state.index.files import BEGINNING, NO_LIMIT, SMALL_BYTES, ClaimPosition, FileClaim

#: Maximum bytes of a claim of a slice. Each claim is one commit, which costs as much as a thousand chunks.
MAX_GROWN_BYTES = 2 << 20


@dataclass(slots=True)
class ClaimTurns:
    """The claims of one slice. Each claim is twice as large as the previous one, so that first results come soon.

    A claim begins where the previous one ended, because an old snapshot keeps the dead index entries before that place.
    It begins at the smallest files again before it takes any of twice the size, because smaller ones may have been
    listed or released since.
    """

    run: IndexRun
    task_id: UUID
    max_files: int
    max_bytes: int
    _after: ClaimPosition = BEGINNING
    _max_size: int = NO_LIMIT

    def claim(self) -> Sequence[FileClaim]:
        """Claim the next files; empty if none is left."""
        claims = [] if self._after == BEGINNING else self._claim()
        if not claims:
            self._after, self._max_size = BEGINNING, NO_LIMIT
            claims = self._claim()
            largest = max((claim.size_bytes for claim in claims), default=0)
            self._max_size = max(2 * largest, SMALL_BYTES)
        self.max_bytes = max(self.max_bytes, min(2 * self.max_bytes, MAX_GROWN_BYTES))
        self._after = max((ClaimPosition(claim.size_bytes, claim.id) for claim in claims), default=BEGINNING)
        return claims

    def _claim(self) -> Sequence[FileClaim]:
        return files.claim(
            self.run.pool,
            task_id=self.task_id,
            index_id=self.run.index.id,
            owner=self.run.lease.owner,
            max_files=self.max_files,
            max_bytes=self.max_bytes,
            after=self._after,
            max_size=self._max_size,
        )
