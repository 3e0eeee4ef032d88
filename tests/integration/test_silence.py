"""Servers, clients and locks that stop responding: nobody waits for them longer than the limits of a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg_pool import PoolTimeout
from redis import RedisError

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings, ToolConfig
from tests.fakes.silence import Silence
from tests.integration.database import do
from tests.service import eventually
from worker import app as queue
from worker.embed.fleet import FleetLimiter
from worker.embed.rates import Rate
from worker.index.lease import open_lease
from worker.resources import Resources
from worker.settings import Settings
from worker.state import connections, silent_backends
from worker.state.connections import BRIEF, REQUEST, Application, BoundedConnection, be_patient
from worker.state.exclusive import exclusive_connection
from worker.state.index import listings, tasks, tool_actions, tools
from worker.state.pool import Pool, open_pool
from worker.upkeep import open_tasks
from worker.upkeep.sweep import sweep

#: Limits short enough for tests.
SHORT = replace(REQUEST, answer=0.5, patient=3.0, pool=1.0)


@pytest.fixture
def proxy(database_url: str) -> Iterator[Silence]:
    with Silence(urlsplit(database_url).port or 5432) as silence:
        yield silence


@pytest.fixture
def behind(database_url: str, proxy: Silence) -> str:
    """The database, through the proxy."""
    given = urlsplit(database_url)
    return database_url.replace(f":{given.port}", f":{proxy.port}")


@pytest.fixture(scope="module")
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url, limits=REQUEST) as opened:
        yield opened


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_statement_against_a_silent_server_ends(behind: str, proxy: Silence) -> None:
    with open_pool(behind, limits=SHORT) as pool:
        with pool.connection() as connection:
            connection.execute("SELECT 1")
        proxy.freeze()
        with at_most(12), pytest.raises(psycopg.OperationalError, match="sent nothing"), pool.connection() as lent:
            lent.execute("SELECT 1")
        assert lent.closed
        with at_most(12), pytest.raises(PoolTimeout), pool.connection():
            pass
        proxy.thaw()
        with pool.connection(10) as connection:
            assert connection.execute("SELECT 2").fetchone() == (2,)


def test_who_comes_to_a_server_that_is_known_to_be_silent_fails_at_once(behind: str, proxy: Silence) -> None:
    def ask(lender: Pool) -> float:
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError), lender.connection() as connection:
            connection.execute("SELECT 1")
        return time.monotonic() - began

    def is_back(lender: Pool) -> bool:
        with suppress(psycopg.OperationalError), lender.connection() as connection:
            return connection.execute("SELECT 3").fetchone() == (3,)
        return False

    with open_pool(behind, max_size=2, limits=REQUEST) as lender:
        assert is_back(lender)
        proxy.freeze()
        with ThreadPoolExecutor(10) as others:
            waited = sorted(others.map(ask, [lender] * 50))
        assert waited[-1] < REQUEST.pool + 2
        assert waited[30] < 0.1
        proxy.thaw()
        eventually(lambda: is_back(lender), 5)
        with ThreadPoolExecutor(2) as others:
            assert all(others.map(is_back, [lender] * 8))


def test_a_slow_statement_is_not_taken_for_a_silent_server(database_url: str) -> None:
    with open_pool(database_url, max_size=2, limits=SHORT) as lender, ThreadPoolExecutor(1) as other:
        slow = other.submit(do, lender, "SELECT pg_sleep(2)")
        while not slow.done():
            assert do(lender, "SELECT 1") == [(1,)]
            time.sleep(0.02)
        with pytest.raises(psycopg.OperationalError, match="sent nothing"):
            slow.result()


def test_a_server_that_computes_is_not_silent_for_the_patient(database_url: str) -> None:
    with open_pool(database_url, max_size=1, limits=SHORT) as pool:
        with pool.connection() as connection:
            be_patient(connection)
            connection.execute("SELECT pg_sleep(1)")
        # the next user of the connection has the usual limits
        with pytest.raises(psycopg.OperationalError, match="sent nothing"), pool.connection() as connection:
            connection.execute("SELECT pg_sleep(1)")


def test_an_answer_that_takes_long_to_come_is_no_silence(database_url: str) -> None:
    with BoundedConnection.open(database_url, SHORT) as connection:
        rows = connection.execute("SELECT n, pg_sleep(0.1), repeat('x', 9000) FROM generate_series(1, 15) AS n")
        assert len(rows.fetchall()) == 15


def test_a_copy_to_a_silent_server_ends(behind: str, proxy: Silence) -> None:
    with BoundedConnection.open(behind, SHORT) as connection:
        connection.execute("CREATE TEMP TABLE staged (text text)")

        def fill() -> None:
            with connection.cursor().copy("COPY staged FROM STDIN") as copy:
                copy.write_row(["first"])
                proxy.freeze()
                # more than the kernels of both sides buffer
                for _ in range(1000):
                    copy.write_row(["x" * 50_000])

        with at_most(20), pytest.raises(psycopg.OperationalError):
            fill()
        assert connection.closed


def test_who_is_alone_at_a_silent_server_hears_of_it(behind: str, proxy: Silence) -> None:
    with exclusive_connection(behind, "work") as held:
        assert held is not None
        proxy.freeze()
        with at_most(BRIEF.answer + 10), pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")


def test_a_lease_ends_though_postgres_is_silent(behind: str, proxy: Silence) -> None:
    with at_most(15):
        with open_lease(behind, uuid4()):
            eventually(lambda: proxy.made > 0, 10)
            proxy.freeze()
            time.sleep(1.5)
        assert not [thread for thread in threading.enumerate() if thread.name == "lease" and not thread.daemon]


def test_every_connection_has_the_limits(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # other tests of this process may have named it
    monkeypatch.setattr(connections, "_process", connections._Process())
    names = ["application_name", "lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout"]
    names += ["client_connection_check_interval", "tcp_user_timeout", "tcp_keepalives_idle", "transaction_timeout"]
    with open_pool(database_url, limits=REQUEST) as pool, pool.connection() as connection:
        rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [names]).fetchall()
    said: dict[str, str] = dict(rows)
    assert said.pop("transaction_timeout", "600000") == "600000"
    assert said == {
        "application_name": "foldex cli",
        "lock_timeout": "3000",
        "idle_in_transaction_session_timeout": "8000",
        "statement_timeout": "120000",
        "client_connection_check_interval": "2000",
        "tcp_user_timeout": "20000",
        "tcp_keepalives_idle": "10",
    }


def test_what_the_url_says_of_itself_holds(database_url: str) -> None:
    with BoundedConnection.open(f"{database_url}?options=-c%20lock_timeout%3D77", REQUEST) as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("77ms",)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("2min",)


@contextmanager
def copying(url: str, *statements: str) -> Iterator[int]:
    """The server process of a client that stops in the middle of a COPY, and holds locks of earlier statements."""
    with ExitStack() as stack:
        stopped = stack.enter_context(psycopg.connect(url, application_name=Application.WORKER))
        # ending a connection raises an error in it
        stack.enter_context(pytest.raises(psycopg.OperationalError))
        stopped.execute("CREATE TEMP TABLE staged (text text)")
        for statement in statements:
            stopped.execute(statement.encode())
        copy = stack.enter_context(stopped.cursor().copy("COPY staged FROM STDIN"))
        yield stopped.info.backend_pid
        # what libpq reads by itself is not sent
        copy.write("x" * 1_000_000)


def test_a_copy_whose_client_stops_is_ended_and_one_that_goes_on_is_not(pool: Pool, database_url: str) -> None:
    is_over = threading.Event()
    do(pool, "CREATE TABLE held AS SELECT 0 AS number")

    def copy_slowly() -> None:
        with BoundedConnection.open(database_url, REQUEST) as connection:
            connection.execute("CREATE TEMP TABLE staged (text text)")
            with connection.cursor().copy("COPY staged FROM STDIN") as copy:
                while not is_over.wait(0.05):
                    copy.write("x" * 10_000 + "\n")

    silence = timedelta(seconds=1.5)
    with ThreadPoolExecutor(1) as other:
        going_on = other.submit(copy_slowly)
        with copying(database_url, "UPDATE held SET number = 1") as stopped:
            assert silent_backends.reap(pool, silence) == []
            ended: list[int] = []

            def reaped() -> bool:
                ended.extend(silent_backends.reap(pool, silence))
                return bool(ended)

            eventually(reaped, 10)
            assert ended == [stopped]
            # its locks are released
            do(pool, "UPDATE held SET number = 2")
        is_over.set()
        going_on.result(10)
    eventually(lambda: not (silent_backends.reap(pool, silence) or do(pool, "SELECT pid FROM silent_backend")), 5)


def test_what_computes_or_waits_for_a_lock_is_not_ended(pool: Pool, database_url: str) -> None:
    silence = timedelta(seconds=0.2)
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor(2) as other:
        holder.execute("SELECT pg_advisory_xact_lock(77)")
        computes = other.submit(do, pool, "SELECT pg_sleep(1.5)")
        waits = other.submit(do, pool, "SELECT pg_advisory_xact_lock(77)")
        while not computes.done():
            assert silent_backends.reap(pool, silence) == []
            time.sleep(0.1)
        holder.rollback()
        waits.result(10)


@pytest.fixture
def resources(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resources]:
    """The resources of a sweep, without a broker: the rows show what it did."""
    monkeypatch.setattr(queue.app, "send_task", lambda *_, **__: None)
    for name in ("count_queued", "crowded"):
        monkeypatch.setattr(open_tasks, name, lambda _: 0)
    made = Resources(Settings(database_url=database_url))
    yield made
    made.sweeping.pool.close()


def new_task(pool: Pool, project: str = "") -> tuple[UUID, UUID, UUID]:
    """A tool, its index and its pending task."""
    source = LocalSource(kind="local", path=f"/nowhere/{uuid4()}")
    settings = IndexSettings(
        embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000
    )
    wanted = tools.NewIndex(project or f"p-{uuid4().hex}", source, "h.1", settings, "lancedb", "store")
    tool, task = tools.create(pool, wanted, name="", config=ToolConfig())
    assert task is not None
    return tool, do(pool, "SELECT index_id FROM search_tool WHERE id = %s", tool)[0][0], task


def listed(pool: Pool) -> tuple[UUID, UUID, UUID]:
    """The same with an empty folder listed, so that the sweep closes the task."""
    tool, index, task = new_task(pool)
    owner = uuid4()
    assert tasks.begin_plan(pool, task, owner)
    page = {"task_id": task, "index_id": index, "owner": owner}
    listings.end_listing(pool, **page, hold=False, left_out=0, warning=None, listing_warning=None, keys=None)
    return tool, index, task


def status(pool: Pool, task: UUID) -> str:
    return str(do(pool, "SELECT status FROM search_index_task WHERE id = %s", task)[0][0])


LOCKS = {
    "task": "SELECT FROM search_index_task WHERE id = '{task}' FOR UPDATE",
    "index": "SELECT FROM search_index WHERE id = '{index}' FOR UPDATE",
    "project": "SELECT pg_advisory_xact_lock(hashtextextended(project_id, 0)) FROM search_index WHERE id = '{index}'",
    "files": "SELECT FROM search_index_file WHERE index_id = '{index}' FOR UPDATE",
    "change": "INSERT INTO search_index_change (index_id, since, due_at) VALUES ('{index}', now(), now())",
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_sweep_passes_over_what_is_locked(pool: Pool, database_url: str, resources: Resources, lock: str) -> None:
    _, index, held = listed(pool)
    _, other_index, free = listed(pool)
    _, _, unplanned = new_task(pool)
    do(pool, "UPDATE search_index_task SET created_at = now() - interval '1 min' WHERE id = %s", unplanned)
    do(
        pool,
        "INSERT INTO search_index_change VALUES (%s, now(), now()), (%s, now(), now()) ON CONFLICT DO NOTHING",
        other_index,
        index if lock != "change" else other_index,
    )
    with psycopg.connect(database_url) as holder:
        holder.execute(LOCKS[lock].format(task=held, index=index).encode())
        with at_most(14):
            said = sweep(resources.sweeping)
        assert status(pool, free) == "ready"
        assert status(pool, held) == ("ready" if lock in {"files", "change"} else "indexing")
        assert do(pool, "SELECT id FROM search_index_task WHERE id = %s AND sent_at IS NOT NULL", unplanned)
        assert not [step for step, done in said.items() if isinstance(done, str)], said
        if lock in {"index", "project"}:
            # without waiting: that raises an error, after which the sweep continues a second later
            assert tasks.refresh(resources.sweeping.pool, held, index, wait=False) is None
    sweep(resources.sweeping)
    assert status(pool, held) == "ready"


def test_a_task_whose_row_is_held_gets_no_message(pool: Pool, database_url: str, resources: Resources) -> None:
    _, _, task = new_task(pool)
    do(pool, "UPDATE search_index_task SET created_at = now() - interval '1 min' WHERE id = %s", task)
    with psycopg.connect(database_url) as holder:
        holder.execute(LOCKS["task"].format(task=task).encode())
        # a step that met a lock reports so instead of a number
        assert isinstance(sweep(resources.sweeping)["woken"], int)
        assert do(pool, "SELECT sent_at FROM search_index_task WHERE id = %s", task) == [(None,)]
        with at_most(12), pytest.raises(psycopg.errors.LockNotAvailable):
            tasks.begin_plan(pool, task, uuid4())
    sweep(resources.sweeping)
    assert do(pool, "SELECT sent_at IS NULL FROM search_index_task WHERE id = %s", task) == [(False,)]


def test_verbs_come_through_once_a_silent_process_lost_its_locks(
    pool: Pool, database_url: str, resources: Resources
) -> None:
    project = f"p-{uuid4().hex}"
    tool, _, task = new_task(pool, project)
    deleted, *_ = new_task(pool, project)
    plan = tasks.begin_plan(pool, task, uuid4())
    assert plan is not None
    with ThreadPoolExecutor(3) as others, copying(database_url, LOCKS["task"].format(task=task)):
        with at_most(30):
            asked: list[Future[object]] = [others.submit(tool_actions.cancel, pool, tool)]
            time.sleep(0.5)
            # they wait for the project that the first one locks
            asked += [others.submit(tools.delete, pool, deleted), others.submit(new_task, pool, project)]

            def done() -> bool:
                sweep(resources.sweeping)
                # the sweep ends the task as soon as its row is free
                return all(one.done() for one in asked) and status(pool, task) == "cancelled"

            eventually(done, 30)
        for one in asked:
            one.result()
    assert status(pool, task) == "cancelled"
    assert tools.get(pool, deleted) is None


def test_a_transaction_that_does_nothing_is_ended_unless_it_only_reads(database_url: str, pool: Pool) -> None:
    with pool.connection() as reader:
        silent_backends.take_time(reader)
        with BoundedConnection.open(database_url, REQUEST, "idle_in_transaction_session_timeout=300") as stopped:
            stopped.execute("BEGIN")
            time.sleep(1)
            # an outage, since its process may have been frozen
            with pytest.raises(psycopg.OperationalError) as ended:
                stopped.execute("SELECT 1")
            assert (ended.value.sqlstate, stopped.closed) == ("25P03", True)
        with BoundedConnection.open(database_url, REQUEST) as long:
            long.execute("SET transaction_timeout = 300")
            long.execute("BEGIN")
            time.sleep(1)
            with pytest.raises(psycopg.OperationalError) as ended:
                long.execute("SELECT 1")
            assert (ended.value.sqlstate, long.closed) == ("25P04", True)
        shown = reader.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert shown == ("5min",)
    assert do(pool, "SHOW idle_in_transaction_session_timeout") == [("8s",)]


def test_a_silent_broker_keeps_no_request_waiting(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = urlsplit(redis_url).port or 6379
    ended: list[bool] = []

    def post() -> None:
        queue.post(lambda: ended.append(queue.send_plan(uuid4(), uuid4())))

    with Silence(port) as proxy:
        monkeypatch.setattr(queue, "app", queue.make_app(redis_url.replace(f":{port}", f":{proxy.port}")))
        post()
        eventually(lambda: ended == [True], 20)
        proxy.freeze()
        with at_most(5):
            for _ in range(50):
                post()
        assert len(ended) == 1
        proxy.thaw()
        eventually(lambda: len(ended) == 51, 60)


def test_a_silent_ledger_is_given_up_soon(redis_url: str) -> None:
    port = urlsplit(redis_url).port or 6379
    with Silence(port) as proxy:
        limiter = FleetLimiter(redis_url.replace(f":{port}", f":{proxy.port}"), "model", Rate.per_minute(10, None))
        limiter.request_permit("project", "request")
        proxy.freeze()
        with at_most(12), pytest.raises(RedisError):
            limiter.request_permit("project", "request")


def test_a_user_is_served_as_soon_as_the_server_is_up(behind: str, proxy: Silence) -> None:
    """Pauses between the pool's attempts do not grow: the later ones would outlast a user's patience."""
    proxy.refuses = True
    with open_pool(behind, limits=replace(SHORT, pool=20.0)) as pool, ThreadPoolExecutor() as threads:
        early = threads.submit(do, pool, "SELECT 1")
        eventually(lambda: proxy.made >= 3, 30)
        proxy.refuses = False
        with pool.connection(timeout=2) as connection:
            assert connection.execute("SELECT 2").fetchone() == (2,)
        assert early.result() == [(1,)]


def test_a_closed_pool_tries_no_more(behind: str, proxy: Silence) -> None:
    proxy.refuses = True
    with open_pool(behind, limits=SHORT) as pool, pytest.raises(PoolTimeout), pool.connection():
        pass
    eventually(lambda: not any(thread.name.startswith(pool.name) for thread in threading.enumerate()), 20)
    made = proxy.made
    assert made > 1
    time.sleep(1)
    assert proxy.made == made


def test_a_connection_returns_while_others_cannot_be_opened(behind: str, proxy: Silence) -> None:
    with open_pool(behind, limits=replace(SHORT, pool=5.0), max_size=4) as pool:
        lent = [pool.getconn() for _ in range(4)]
        proxy.refuses = True
        for broken in lent[1:]:
            broken.close()
            pool.putconn(broken)
        pool.putconn(lent[0])
        for _ in range(3):
            assert do(pool, "SELECT 1") == [(1,)]
