"""Who holds files and for how long, and the effect of a clock that is set back; directly on the rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from api.stack.postgres import postgres
from schemas.content.document import SourceEntry
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.database import do
from tests.service import eventually
from worker.index.lease import open_lease
from worker.state.index import chunks, files, listings, messages, statuses, tasks, tool_actions, tools
from worker.state.index.files import BEGINNING, FileClaim
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool
from worker.state.queries import load

PROFILE = EmbedderProfile(model="m", dimensions=4)
SETTINGS = IndexSettings(embedder=PROFILE, chunks=ChunkSettings(), max_file_bytes=1000)
FILES = 6


@pytest.fixture
def task(pool: Pool) -> UUID:
    """A task that has listed its files."""
    return new_task(pool)


def new_task(pool: Pool) -> UUID:
    source = LocalSource(kind="local", path="/nowhere")
    wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", SETTINGS, "lancedb", "store")
    _, made = tools.create(pool, wanted, name="", config=ToolConfig())
    assert made is not None
    lister = uuid4()
    plan = tasks.begin_plan(pool, made, lister)
    assert plan is not None
    found = [_listed(number) for number in range(FILES)]
    page: dict[str, Any] = {"task_id": made, "index_id": plan.index_id, "owner": lister}
    listings.record_page(pool, **page, listed=found, cursor=None, unlisted=(), ignored={}, matched=(), first=True)
    listings.end_listing(pool, **page, hold=False, left_out=0, warning=None, listing_warning=None, keys=None)
    return made


def _listed(number: int) -> listings.ListedEntry:
    entry = SourceEntry(f"{number}".encode(), f"{number}.txt", f"/{number}.txt", None, 1, "stamp", mtime_ms=number)
    return listings.ListedEntry(entry, "1", None)


def claimed(pool: Pool, task: UUID, owner: UUID, most: int = FILES) -> set[UUID]:
    return {claim.id for claim in claims(pool, task, owner, most)}


def claims(pool: Pool, task: UUID, owner: UUID, most: int = FILES) -> list[FileClaim]:
    index_id = index_of(pool, task)
    return files.claim(pool, task_id=task, index_id=index_id, owner=owner, max_files=most, max_bytes=1000)


def index_of(pool: Pool, task: UUID) -> UUID:
    found: UUID = do(pool, "SELECT index_id FROM search_index_task WHERE id = %s", task)[0][0]
    return found


def returned(pool: Pool) -> set[UUID]:
    return {id_ for id_, *_ in files.return_expired(pool)}


@pytest.fixture(autouse=True)
def old_server(pool: Pool) -> Iterator[None]:
    """A server that just started grants its clients time. Pretend that it started long ago."""
    do(pool, "SELECT pg_sleep(greatest(0, 10.1 - extract(epoch FROM now() - pg_postmaster_start_time())))")
    yield
    do(pool, "DELETE FROM file_lease")
    files.return_expired(pool)


def test_files_of_an_owner_go_back_when_its_lease_is_over_and_not_before(pool: Pool, task: UUID) -> None:
    live, dead = uuid4(), uuid4()
    kept, lost = claimed(pool, task, live, 2), claimed(pool, task, dead)
    assert (len(kept), len(lost)) == (2, FILES - 2)
    assert returned(pool) == set()
    do(pool, "UPDATE file_lease SET until = now() - interval '1 ms'")
    with pool.connection() as connection:
        assert tasks.beat(connection, task, live, parsing=False)
    assert returned(pool) == lost
    # a process that returns too late renews nothing
    with pool.connection() as connection:
        tasks.beat(connection, task, dead, parsing=False)
    assert do(pool, "SELECT owner FROM file_lease") == [(live,)]
    # as suspects, one by one: they may have killed it
    assert claimed(pool, task, uuid4()) < lost


def test_who_is_stopped_amid_a_claim_keeps_neither_the_sweep_nor_what_it_held(pool: Pool, task: UUID) -> None:
    owner = uuid4()
    held = claimed(pool, task, owner, 2)
    do(pool, "UPDATE file_lease SET until = now() - interval '1 ms'")
    values = {"task_id": task, "index_id": index_of(pool, task), "owner": owner, "lease": tasks.LEASE}
    values |= {
        "after": BEGINNING.id,
        "after_size": BEGINNING.size_bytes,
        "max_size": 1000,
        "small": 0,
        "least": 0,
        "vectors": False,
    }
    with pool.connection() as stopped:
        taken = stopped.execute(load("index/files")["claim"], {**values, "files": 1, "most": 1000}).fetchall()
        assert len(taken) == 1
        with pool.connection() as connection:
            connection.execute("SET LOCAL statement_timeout = '5s'")
            assert tasks.beat(connection, task, owner, parsing=True)
        assert returned(pool) == held


def test_a_file_that_ends_its_process_whenever_it_is_written_is_given_up_alone(pool: Pool, task: UUID) -> None:
    """Its process dies after parsing, for example for lack of memory: each time with all files that it holds."""
    bad = min(id_ for (id_,) in do(pool, "SELECT id FROM search_index_file WHERE task_id = %s", task))
    rounds = 0
    while left := do(pool, "SELECT id FROM search_index_file WHERE task_id = %s AND status = 'pending'", task):
        owner, rounds = uuid4(), rounds + 1
        assert rounds < 2 * files.MAX_DEATHS, left
        held = claimed(pool, task, owner)
        with pool.connection() as connection:
            tasks.beat(connection, task, owner, parsing=False)
        if bad in held:
            do(pool, "DELETE FROM file_lease WHERE owner = %s", owner)
            assert returned(pool) == held
        else:
            do(pool, "UPDATE search_index_file SET status = 'indexed' WHERE lease_owner = %s", owner)
    outcomes = do(pool, "SELECT id = %s, status, reason FROM search_index_file WHERE task_id = %s", bad, task)
    assert sorted(outcomes) == [(False, "indexed", None)] * (FILES - 1) + [(True, "failed", "crashed")]


def crash(pool: Pool, task: UUID) -> UUID:
    """Give a file up after the vector of one of its chunks was to be written. Returns the chunk's id."""
    bad = min(id_ for (id_,) in do(pool, "SELECT id FROM search_index_file WHERE task_id = %s", task))
    do(pool, "UPDATE search_index_file SET suspect = true, crashes = %s WHERE id = %s", files.MAX_CRASHES - 1, bad)
    do(pool, "UPDATE search_index_file SET status = 'skipped' WHERE task_id = %s AND id <> %s", task, bad)
    owner, chunk = uuid4(), uuid4()
    (claim,) = claims(pool, task, owner)
    assert claim.id == bad
    ((epoch,),) = do(pool, "SELECT epoch FROM search_index_task WHERE id = %s", task)
    chunks.draft(pool, owner, epoch, [(claim, [chunk])])
    do(pool, "DELETE FROM file_lease WHERE owner = %s", owner)
    return chunk


def test_what_was_written_of_a_file_that_is_given_up_is_deleted(pool: Pool, task: UUID) -> None:
    chunk = crash(pool, task)
    files.return_expired(pool)
    reasons = "SELECT count(*) FROM search_index_file WHERE task_id = %s AND reason = 'crashed'"
    assert do(pool, reasons, task) == [(1,)]
    assert do(pool, "SELECT file_id FROM chunk_draft WHERE index_id = %s", index_of(pool, task)) == []
    assert do(pool, "SELECT id FROM chunk_tombstone WHERE index_id = %s", index_of(pool, task)) == [(chunk,)]


def test_a_sweep_does_not_wait_for_chunks_that_a_cancel_deletes(pool: Pool, task: UUID) -> None:
    """The cancel continues to the files, which the sweep holds."""
    chunk = crash(pool, task)
    with ThreadPoolExecutor(1) as thread, pool.connection() as cancelling:
        cancelling.execute("SELECT FROM chunk_draft WHERE ids = %s FOR UPDATE", [[chunk]])
        assert len(thread.submit(files.return_expired, pool).result(10)) == 1


def test_a_beat_writes_no_file_but_to_tell_that_it_is_parsed(pool: Pool, task: UUID) -> None:
    owner = uuid4()
    claimed(pool, task, owner)
    versions = "SELECT xmin::text, parsing FROM search_index_file WHERE lease_owner = %s ORDER BY id"

    def beat(*, parsing: bool) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            assert tasks.beat(connection, task, owner, parsing=parsing)
        return do(pool, versions, owner)

    before = do(pool, versions, owner)
    assert {parsing for _, parsing in before} == {FILES}
    assert beat(parsing=True) == before
    parsed = beat(parsing=False)
    assert {parsing for _, parsing in parsed} == {0}
    assert beat(parsing=False) == parsed


def test_a_clock_that_is_set_back_keeps_no_dead_owner_s_files_and_no_task(pool: Pool, task: UUID) -> None:
    lost = claimed(pool, task, uuid4())
    # a valid lease may seem to end a little too late
    do(pool, "UPDATE file_lease SET until = now() + 2 * %s - interval '1 s'", tasks.LEASE)
    assert returned(pool) == set()
    do(pool, "UPDATE file_lease SET until = now() + 2 * %s + interval '1 min'", tasks.LEASE)
    assert returned(pool) == lost
    for column in ("plan_until", "counted_at", "sent_at", "moved_at"):
        do(pool, f"UPDATE search_index_task SET {column} = now() + interval '1 h' WHERE id = %s", task)
        assert tasks.bring_back(pool) == 1
        assert do(pool, f"SELECT {column} <= now() FROM search_index_task WHERE id = %s", task) == [(True,)]
    # a provider may require as much
    messages.note_sent(pool, task, tasks.LONGEST_WAIT.total_seconds())
    assert tasks.bring_back(pool) == 0


CLOCK = """
CREATE SCHEMA set_back;
CREATE FUNCTION set_back.now() RETURNS timestamptz STABLE RETURN pg_catalog.now() - interval '5 h';
CREATE FUNCTION set_back.clock_timestamp() RETURNS timestamptz RETURN pg_catalog.clock_timestamp() - interval '5 h';
"""


@pytest.fixture
def behind(pool: Pool, database_url: str) -> Iterator[Pool]:
    """Connections that see the clock of Postgres set back to before it started."""
    do(pool, CLOCK)
    with open_pool(f"{database_url}?options=-c%20search_path%3Dset_back%2Cpublic%2Cpg_catalog") as opened:
        yield opened
    do(pool, "DROP SCHEMA set_back CASCADE")


def test_a_clock_set_back_to_before_the_server_started_keeps_no_dead_owner_s_work(
    pool: Pool, behind: Pool, task: UUID
) -> None:
    assert do(behind, "SELECT now() < pg_postmaster_start_time()") == [(True,)]
    lost = claimed(pool, task, uuid4())
    assert returned(behind) == lost
    listing = "UPDATE search_index_task SET listing = true, plan_owner = gen_random_uuid(), plan_until = now()"
    do(pool, f"{listing} WHERE id = %s", task)
    assert tasks.bring_back(behind) > 0
    do(behind, "SELECT pg_sleep(0.01)")
    assert tasks.begin_plan(behind, task, uuid4()) is not None


def test_the_newest_task_is_the_last_one_also_behind_a_clock_that_was_set_back(pool: Pool, task: UUID) -> None:
    ((tool,),) = do(pool, "SELECT tool_id FROM search_index_task WHERE id = %s", task)
    do(pool, "UPDATE search_index_task SET created_at = now() + interval '1 h' WHERE id = %s", task)
    tool_actions.cancel(pool, tool)
    again = tool_actions.reindex(pool, tool, full=False, allow_removals=False)
    newest = statuses.newest_of_tool(pool, tool)
    assert newest is not None
    assert newest.task_id == again != task


def test_a_lease_is_renewed_while_commits_wait_for_the_disk(tmp_path: Path) -> None:
    """Otherwise all workers would lose their leases at once, and start their work again."""
    with postgres(tmp_path) as url:
        migrate(url)
        with open_pool(url) as pool:
            task = new_task(pool)
            with open_lease(url, task) as lease:
                assert len(claimed(pool, task, lease.owner)) == FILES
                with commits_waiting(url, pool):
                    before = do(pool, "SELECT until FROM file_lease")
                    eventually(lambda: do(pool, "SELECT until FROM file_lease") > before, 30)


@contextmanager
def commits_waiting(url: str, pool: Pool) -> Iterator[None]:
    """Make commits wait for a second server that never comes, as they would wait for a disk."""
    is_over = Event()
    with psycopg.connect(url, autocommit=True) as connection, ThreadPoolExecutor(1) as other:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'away'")
        try:
            connection.execute("SELECT pg_reload_conf()")
            other.submit(commit, pool, is_over)
            eventually(lambda: bool(do(pool, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")), 30)
            yield
        finally:
            is_over.set()
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")


def commit(pool: Pool, is_over: Event) -> None:
    while not is_over.is_set():
        do(pool, "UPDATE search_index SET namespace = namespace")


def test_a_file_is_written_once_when_it_is_listed(pool: Pool, task: UUID) -> None:
    rows = do(pool, "SELECT mtime_ms, xmax::text FROM search_index_file WHERE task_id = %s ORDER BY path", task)
    assert rows == [(number, "0") for number in range(FILES)]
