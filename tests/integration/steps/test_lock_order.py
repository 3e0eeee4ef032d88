"""The order in which transactions lock, read from `pg_locks` after each of their statements, under load."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import Composable

from schemas.errors import FoldexError
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site, write
from worker.index.pipeline import index_files
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.index import (
    changes,
    counting,
    drift,
    files,
    index_switch,
    leftovers,
    messages,
    tasks,
    tool_actions,
    tools,
)
from worker.state.lock_order import ORDER
from worker.state.tree import trees

SECONDS, THREADS = 5.0, 4
#: The locks of one server process: its transaction, whether it holds a project, and the tables whose rows it locks.
HELD = """
SELECT min(virtualtransaction), bool_or(locktype = 'advisory'),
       array_agg(DISTINCT relation::regclass::text) FILTER (WHERE mode = 'RowShareLock'),
       array_agg(DISTINCT relation::regclass::text) FILTER (WHERE mode = 'RowExclusiveLock')
FROM pg_locks WHERE pid = %s AND granted AND locktype IN ('relation', 'advisory')
"""
WRITTEN = re.compile(r"\b(?:UPDATE|DELETE FROM) (\w+)|\bINSERT INTO (\w+)(?=.*\bDO UPDATE\b)", re.DOTALL)
MADE = re.compile(r"\bINSERT INTO (\w+)(?!.*\bDO UPDATE\b)", re.DOTALL)
READ = re.compile(r"\b(?:FROM|JOIN) (\w+)")
LOCKED = re.compile(r"\bFOR (?:NO KEY UPDATE|UPDATE|SHARE)\b")
LEVEL = {table: level for level, tables in enumerate(ORDER) for table in tables}


@dataclass
class Transaction:
    """The tables whose rows a transaction may have waited for, statement by statement."""

    in_project: bool = False
    shared: set[str] = field(default_factory=set)
    #: Tables in which it made a row, for which nobody else waits, nor it for others.
    made: set[str] = field(default_factory=set)
    steps: list[set[str]] = field(default_factory=list)

    def pairs(self) -> set[tuple[str, str]]:
        """Tables of which one was locked in an earlier statement than the other, and not before as well."""
        found: set[tuple[str, str]] = set()
        seen: set[str] = set()
        for step in self.steps:
            found |= {(first, then) for first in seen - step for then in step - seen}
            seen |= step
        return found


@dataclass
class Recorder:
    """The transactions of this process."""

    monitor: psycopg.Connection[Any]
    transactions: dict[tuple[int, str], Transaction] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def note(self, execute: Callable[..., Any], cursor: psycopg.Cursor[Any], text: str) -> None:
        pid = cursor.connection.info.backend_pid
        with self.lock:
            row = execute(self.monitor.cursor(), HELD, [pid]).fetchone()
            if row is None or row[0] is None:
                return
            name, in_project, shared, written = row[0], row[1], {*(row[2] or ())}, {*(row[3] or ())}
            transaction = self.transactions.setdefault((pid, name), Transaction())
            named = {first or then for first, then in WRITTEN.findall(text)} & LEVEL.keys()
            # all that a statement names is found, so the text is a way to read the order
            self.missed += [text] if not named <= written | shared else []
            awaited = set() if "SKIP LOCKED" in text else named
            if LOCKED.search(text) and "SKIP LOCKED" not in text:
                awaited |= (shared - transaction.shared) & LEVEL.keys()
                # a statement that skipped locked rows may have locked others of the table before
                awaited |= {*READ.findall(text)} & shared & LEVEL.keys() if " OF " not in text else set()
            awaited -= transaction.made
            transaction.made |= {*MADE.findall(text)}
            transaction.shared |= shared
            transaction.in_project |= in_project
            if awaited:
                transaction.steps.append(awaited)


@contextmanager
def recording(database_url: str) -> Iterator[Recorder]:
    execute = psycopg.Cursor.execute
    with psycopg.connect(database_url, autocommit=True) as monitor, pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(monitor)

        def recorded(self: Any, query: Any, *args: Any, **options: Any) -> Any:
            done = execute(self, query, *args, **options)
            if not self.connection.autocommit:
                text = query.as_string(None) if isinstance(query, Composable) else str(query)
                recorder.note(execute, self, text)
            return done

        patch.setattr(psycopg.Cursor, "execute", recorded)
        yield recorder


def inversions(transactions: list[Transaction]) -> list[tuple[str, str]]:
    """Pairs of tables that transactions lock in two orders, unless the project's lock keeps these apart."""
    free = {pair for each in transactions if not each.in_project for pair in each.pairs()}
    under_project = {pair for each in transactions if each.in_project for pair in each.pairs()}
    wrong = [pair for pair in free if LEVEL[pair[0]] > LEVEL[pair[1]]]
    return sorted({*wrong, *((first, then) for first, then in under_project if (then, first) in free)})


def steps(sites: list[Site]) -> list[Callable[[Site], object]]:
    """What the API, workers, the watch process and the sweep do."""

    def index(site: Site) -> None:
        run = site.worker()
        index_files(run, site.claim(run))
        files.release(run.pool, run.lease.owner)

    def change(site: Site) -> None:
        config = ToolConfig(every=3600, auto_reindex=False, chunk_size=random.choice([64, 96]))
        wanted = site.wanted(chunks={"size": config.chunk_size, "overlap": 0})
        tool_actions.change_config(site.pool, site.tool, config, wanted)

    def beside(site: Site) -> None:
        made, _ = tools.create(site.pool, site.wanted(), name="", config=ToolConfig(every=3600))
        site.do("UPDATE search_tool SET next_run_at = now() WHERE id = %s", made)
        changes.schedule(site.pool)
        tools.delete(site.pool, made)

    def restart(site: Site) -> None:
        tool_actions.reindex(site.pool, site.tool, full=random.random() < 0.5, allow_removals=True)
        site.task = tasks.newest(site.pool, site.index.id).id  # type: ignore[union-attr] # an index has a task
        site.list_folder()

    return [
        index,
        index,
        restart,
        restart,
        change,
        beside,
        lambda site: site.refresh(),
        lambda site: site.cancel(),
        lambda site: tool_actions.retry(site.pool, site.tool),
        lambda site: changes.note_change(site.pool, site.index.id, paths=["0.txt"]),
        lambda site: [changes.start(site.pool, index, changes.QUIET) for index in changes.due(site.pool)],
        lambda site: nodes.insert(site.pool, site.project, node(), StoredContent()),
        lambda site: files.return_expired(site.pool),
        lambda site: counting.refresh_due(site.pool),
        lambda site: messages.note_sent(site.pool, site.task),
        lambda site: messages.pass_over(site.pool, site.task),
        lambda site: messages.take_up_freed(site.pool),
        lambda site: leftovers.tidy(site.pool, 0.1),
        lambda site: drift.start(site.pool, site.index.id),
        lambda site: trees.reconcile(site.pool),
        lambda site: [tool_actions.end_stopped(site.pool, *each) for each in index_switch.stopping(site.pool, 9)],
    ]


def node() -> NewNode:
    id_ = uuid4().hex
    return NewNode(id_, None, id_, "folder")


def test_no_two_transactions_lock_in_opposite_orders(resources: Resources, database_url: str) -> None:
    sites = []
    for _ in range(2):
        folder = resources.home.parent / uuid4().hex
        folder.mkdir()
        for number in range(6):
            write(folder, number, f"Before anything else, file {number} tells of apples.")
        sites += [Site(resources, folder)]
    sites += [Site(resources, sites[0].folder, project=sites[0].project, settings={"max_file_bytes": 9_000})]
    until = time.monotonic() + SECONDS

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < until:
            site, step = chosen.choice(sites), chosen.choice(steps(sites))
            # what another thread did meanwhile is in the way of some
            with suppress(FoldexError, AssertionError, psycopg.errors.LockNotAvailable, AttributeError):
                step(site)

    with recording(database_url) as recorder, ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work, seed) for seed in range(THREADS)]:
            done.result()
    assert recorder.missed == []
    transactions = [*recorder.transactions.values()]
    locked = {table for each in transactions for step in each.steps for table in step}
    assert locked >= {"search_tool", "search_index", "search_index_task", "search_index_file", "chunk"}
    assert inversions(transactions) == []
    with psycopg.connect(database_url) as connection:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert connection.execute(deadlocks).fetchone() == (0,)
