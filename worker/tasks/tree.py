"""The task that builds summary trees in slices."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable

from schemas.errors import FoldexError, LeaseLost, TreeCrashed
from worker.app import BULK, TREES, app, count_queued
from worker.embed.models import is_local
from worker.hosts.needs import NeededSettings, needs_of
from worker.llm.chat import Chat
from worker.resources import Resources
from worker.state.exclusive import exclusive_connection
from worker.state.index import tasks, tools, turns
from worker.state.index.messages import LOCKED_PAUSE
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.state.tree import trees
from worker.state.tree.trees import TreeBuild
from worker.tasks import failures, leaving, process
from worker.tasks.failures import RETRY_SECONDS, Result
from worker.tasks.limits import SLICE_SECONDS
from worker.tree.build import build_slice
from worker.tree.lease import TreeLease, tree_leased
from worker.tree.llm_choice import LlmOptions, model_of, provider_of, summariser_of
from worker.tree.run import TreeRun
from worker.tree.summaries import Summariser
from worker.upkeep.tree_upkeep import send_messages

log = structlog.get_logger()


@app.task(name="foldex.tree", base=failures.ShownTask, bind=True)
def tree(self: Any, tree_id: str) -> Result:
    """Build a slice of a tree: one at a time per node, so that indexing keeps the other processes."""
    work = partial(_build_alone, node=self.request.hostname)
    return failures.contain(UUID(tree_id), work, name="tree_id", warn=trees.warn)


def _build_alone(tree_id: UUID, node: str) -> Result:
    r = process.resources()
    # a stopped process loses the lock together with its lease, so that another one builds
    silence = int(tasks.LEASE.total_seconds())
    with exclusive_connection(r.settings.session_url, f"summary trees on {node}", seconds=silence) as lock:
        if lock is None:
            return {"left": "to another process"}
        # the message only says that some tree waits
        reach = r.reach(process.me())
        due = trees.fairest(r.pool, tree_id, reach)
        if due is None and leaving.is_left(r.pool, tree_id):
            return leaving.LEFT
        return failures.ELSEWHERE if due is None and reach.refused else _build(r, due or tree_id, lock)


def _build(r: Resources, tree_id: UUID, lock: Connection[Any]) -> Result:
    with tree_leased(r.settings.database, tree_id, lock) as lease:
        build = trees.begin(r.pool, tree_id, lease.owner)
        if build is None:
            return {"nothing": "to build"}
        structlog.contextvars.bind_contextvars(tree_id=str(tree_id))
        turns.take(r.pool, build.project_id, "tree")
        try:
            _check_deaths(build)
            index = _index(r, build)
            if leaving.leave_if_lacking(r.pool, tree_id, (TREES,), _needs(r, build, index), trees.warn):
                return _leave(r, build, lease)
            complete = build_slice(_open_run(r, build, index, lease), SLICE_SECONDS[BULK])
        except FoldexError as error:
            if _leaves(r, build, error):
                return _leave(r, build, lease)
            return _settle(r.pool, build, lease, error)
        except Exception as error:  # a bug of ours must be counted, or the build would be tried forever
            _record_fault(r.pool, build, lease, error)
            raise
        if not complete:
            trees.release(r.pool, tree_id, lease.owner)
    if not complete:
        send_messages(r.pool)
    return {"complete": complete}


def _needs(r: Resources, build: TreeBuild, index: Index) -> NeededSettings:
    # without a name, a worker with a default model may build the tree
    return needs_of(index, build.config.llm_model or r.settings.default_llm_model or "")


def _leave(r: Resources, build: TreeBuild, lease: TreeLease) -> Result:
    trees.release(r.pool, build.id, lease.owner)
    send_messages(r.pool)
    return leaving.LEFT


def _leaves(r: Resources, build: TreeBuild, error: FoldexError) -> bool:
    """Return whether to leave the build to another worker after an error."""
    if error.settings_of is None:
        return False
    return leaving.leave_after(r.pool, build.id, (TREES,), _needs(r, build, _index(r, build)), trees.warn, error)


def _settle(pool: Pool, build: TreeBuild, lease: TreeLease, error: FoldexError) -> Result:
    """Wait after a transient error; end the build with the reason of a permanent one."""
    if isinstance(error, LeaseLost):
        raise error
    if error.retryable:
        log.warning("waiting", code=error.code, reason=error.message)
        trees.warn(pool, build.id, f"Waiting: {error.message}")
        trees.release(pool, build.id, lease.owner, failures.retry_seconds(error))
        return {"waiting": error.code}
    log.error("tree failed", code=error.code, reason=error.message)
    trees.fail(pool, build.id, error)
    return {"error": error.code, "reason": error.message}


def _check_deaths(build: TreeBuild) -> None:
    """Raise `TreeCrashed` if too many workers in a row died during this build."""
    if build.deaths >= trees.MAX_DEATHS:
        raise TreeCrashed(
            f"{build.deaths} workers in a row died while building this tree: they were killed, or ran out of memory. "
            "Set cluster_method to adjacent, or see the workers' logs."
        )


def _record_fault(pool: Pool, build: TreeBuild, lease: TreeLease, error: Exception) -> None:
    """Release the build after an outage; count any other unexpected exception.

    After too many without progress the build ends.
    """
    if failures.is_outage(error):
        is_locked = isinstance(error, LockNotAvailable)
        with suppress(psycopg.OperationalError):
            # other builds get their turn, as after `messages.pass_over`
            trees.release(pool, build.id, lease.owner, LOCKED_PAUSE.total_seconds() if is_locked else 0)
        return
    reason = failures.one_line(error)
    faults = trees.count_fault(pool, build.id)
    if faults >= trees.MAX_FAULTS:
        crashed = f"Building failed {faults} times in a row: {reason}. See the workers' logs, then build again."
        trees.fail(pool, build.id, TreeCrashed(crashed))
    else:
        trees.release(pool, build.id, lease.owner, RETRY_SECONDS)


def _index(r: Resources, build: TreeBuild) -> Index:
    """Return the index that the tree belongs to. Raises `LeaseLost`."""
    index = tools.index(r.pool, build.index_id)
    if index is None:
        raise LeaseLost("the index was deleted")
    structlog.contextvars.bind_contextvars(namespace=index.namespace)
    return index


def _open_run(r: Resources, build: TreeBuild, index: Index, lease: TreeLease) -> TreeRun:
    settings = index.settings
    return TreeRun(
        build=build,
        index=index,
        pool=r.pool,
        lease=lease,
        store=r.store_of(index),
        embedder=r.embedder(settings.embedder, explicit_dimensions=settings.explicit_dimensions),
        tokenizer=r.tokenizer(settings.embedder),
        budget=r.budget(settings.embedder),
        concurrency=r.settings.embedding_concurrency,
        summariser=_summariser(r, build),
        yields=lambda: count_queued(BULK) > 0,
    )


def _summariser(r: Resources, build: TreeBuild) -> Summariser:
    options = r.settings.values(LlmOptions)
    model = model_of(build.config, options)
    chat = None
    if not is_local(model):
        paid = partial(trees.count_paid, r.pool, build)
        chat = Chat(provider_of(model, options), r.llm_budget(model), build.project_id, paid)
    most = build.config.max_tokens
    return summariser_of(build.config, chat, None if most is None else max(0, most - build.spent))
