"""Keeps summary trees up to date: their existence, the messages of their builds, and the vectors to delete."""

from __future__ import annotations

import structlog

from schemas.errors import FoldexError
from schemas.wording import amount
from worker.app import TREES, crowded, send
from worker.resources import Resources
from worker.state.index.tools import TREE
from worker.state.pool import Pool
from worker.state.tree import trees
from worker.upkeep.isolation import isolate_failure

#: Maximum number of vectors that one sweep deletes per index.
MAX_DELETES = 1000

log = structlog.get_logger()


def reconcile(resources: Resources) -> int:
    """Create, start and delete trees for tools and finished runs."""
    return trees.reconcile(resources.pool)


def wake(resources: Resources) -> int:
    """Send the missing messages of open builds. Returns their number."""
    return send_messages(resources.pool)


def send_messages(pool: Pool) -> int:
    """Send a message for each open build that no worker holds, unless one was sent just now."""
    if not trees.any_open(pool) or crowded(TREES):
        return 0
    messages = trees.take_due_messages(pool)
    for message in messages:
        done = f"{message.done} of {amount(message.expected, 'summary', 'summaries')}"
        shown = f"{done}, index {message.index_id}, tree {message.id}"
        send("foldex.tree", message.id, queue=TREES, shown=shown)
    return len(messages)


def delete_vectors(resources: Resources) -> int:
    """Delete the vectors of removed summaries twice, because a late write may bring one back."""
    done, refused = 0, resources.refused()
    for due in trees.due_tombstones(resources.pool, MAX_DELETES):
        namespace = due.namespace + TREE
        if due.vector_store in refused:
            continue
        with isolate_failure("vectors of summaries not deleted yet", namespace=namespace):
            try:
                store = resources.store(due.vector_store, due.keyword_index)
                store.write(namespace, due.dimensions, deletes=due.ids)
            except FoldexError as error:
                log.warning("vectors of summaries not deleted yet", namespace=namespace, code=error.code)
                continue
            trees.confirm_deleted(resources.pool, due)
            done += len(due.ids)
    return done
