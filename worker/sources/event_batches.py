"""Receives the changed objects of buckets from a queue of events."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from threading import Event, Thread

import structlog

from schemas.content.source import S3Source
from schemas.errors import SourceUnavailable
from worker.sources.bucket_events import LONG_POLL_SECONDS, EventQueue, QueueMessage
from worker.sources.changes_seen import ANYTHING, NOTHING, SeenChanges

#: Maximum messages of a batch, and the seconds for which it collects messages.
MAX_MESSAGES, FILL_SECONDS = 1_000, 1.0
#: Seconds before a queue that failed is asked again.
RETRY_SECONDS = 5.0

log = structlog.get_logger()


class BucketEvents:
    """Takes batches of events from a queue, in a thread. `wake` is called for each batch.

    A batch is deleted from the queue once it is closed, when its changes are recorded in Postgres. If the process dies
    before, the queue delivers the events again.
    """

    def __init__(self, queue: EventQueue, wake: Callable[[], None]) -> None:
        self._queue, self._wake = queue, wake
        self._batch: Sequence[QueueMessage] = ()
        #: Keys of the open batch by bucket; None while none is open.
        self._keys: dict[str, set[str]] | None = None
        self._noted, self._stop = Event(), Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to receive, unless it has begun."""
        if self._thread is None:
            self._thread = Thread(target=self._listen, name="bucket events", daemon=True)
            self._thread.start()

    def open_batch(self) -> None:
        """Make the waiting batch, if any, visible to `seen`."""
        batch = self._batch
        keys: dict[str, set[str]] = defaultdict(set)
        for message in batch:
            for bucket, key in message.objects:
                keys[bucket].add(key)
        self._keys = keys if batch else None

    def seen(self, source: S3Source) -> SeenChanges:
        """Return the changes of a source in the open batch."""
        prefix, keys = source.prefix, (self._keys or {}).get(source.bucket, ())
        below = {key.removeprefix(prefix) for key in keys if key.startswith(prefix)}
        # a key that ends with "/" is a console's empty folder
        paths = frozenset(path for path in below if not path.endswith("/") and path)
        # Postgres keeps no NUL
        return ANYTHING if any("\0" in path for path in paths) else SeenChanges(paths) | NOTHING

    def close_batch(self) -> None:
        """Have the open batch deleted, and receive the next one."""
        if self._keys is not None:
            self._keys, self._batch = None, ()
            self._noted.set()

    def close(self) -> None:
        """Stop. Waiting messages stay in the queue."""
        self._stop.set()
        self._noted.set()

    def _listen(self) -> None:
        has_failed = False
        while not self._stop.is_set():
            try:
                self._receive_batch()
                if has_failed:
                    log.info("the queue of bucket events answers again")
                has_failed = False
            except SourceUnavailable as error:
                if not has_failed:
                    log.warning("events of buckets are not received", reason=error.message)
                has_failed = True
                self._stop.wait(RETRY_SECONDS)
            except Exception:  # a bug must not end the thread, which follows all buckets
                log.exception("events of buckets are not received")
                self._stop.wait(RETRY_SECONDS)

    def _receive_batch(self) -> None:
        messages = self._queue.receive(LONG_POLL_SECONDS)
        full_at = time.monotonic() + FILL_SECONDS
        more = messages
        while more and len(messages) < MAX_MESSAGES and time.monotonic() < full_at:
            more = self._queue.receive(0)
            messages += more
        if not messages or self._stop.is_set():
            return
        self._noted.clear()
        self._batch = messages
        self._wake()
        self._noted.wait()
        if not self._stop.is_set():
            self._queue.delete([message.receipt for message in messages])
