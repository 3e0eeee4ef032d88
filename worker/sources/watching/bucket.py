"""Notices which objects of a bucket changed."""

from __future__ import annotations

import time
from datetime import timedelta

from schemas.content.source import S3Source
from worker.sources.changes_seen import ANYTHING, NoticedChanges
from worker.sources.event_batches import BucketEvents
from worker.state.index import changes

#: Seconds after which a whole bucket is listed: its queue keeps events, and its listing takes longer.
EVERYTHING_IN_BUCKET_SECONDS = 86_400.0


class BucketWatch:
    """A prefix of a bucket. The queue keeps events while nothing watches."""

    def __init__(self, events: BucketEvents, source: S3Source) -> None:
        self._events, self._source = events, source
        self._listed: float | None = None
        events.start()

    def look(self) -> NoticedChanges | None:
        """Return the changes in the open batch, or everything: at first, as the queue may be new, and regularly."""
        seen, now = self._events.seen(self._source), time.monotonic()
        if self._listed is None or (seen and now - self._listed >= EVERYTHING_IN_BUCKET_SECONDS):
            self._listed = now
            return NoticedChanges(ANYTHING, timedelta(0))
        return NoticedChanges(seen, changes.QUIET_OF_PATHS) if seen else None

    def close(self) -> None:
        """Do nothing; all buckets share the queue."""
