"""The maximum time of a message in a process, by its queue."""

from __future__ import annotations

from worker.app import BULK, FAST

#: Seconds after which a slice hands over to the next; short on the fast queue, where the sweep waits too.
SLICE_SECONDS = {FAST: 1.0, BULK: 20.0}
#: Seconds after which an embedding slice starts no further request.
EMBED_SECONDS = {FAST: 5.0, BULK: 60.0}
