"""Tasks that wait for a provider delay no others."""

from __future__ import annotations

import dbm
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import orjson
import psycopg
import pytest
from psycopg import Connection
from redis import Redis

from api.stack import programs
from api.stack.processes import start, stop
from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_index_life import write
from tests.service import NewService, Service, environment, eventually, next_broker, with_one_worker
from worker.app import LOST_BROKER_SECONDS, MAX_SLICES, MAX_WAITING, make_app
from worker.state.connections import BoundedConnection
from worker.state.exclusive import try_exclusive
from worker.state.index import tasks
from worker.state.queries import load

#: Messages that occupy the worker for longer than a sweep may be late.
MANY_MESSAGES = 4000


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    with new_service(with_one_worker, **provider.env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake) -> Iterator[None]:
    yield
    provider.holds.release()


def wait_for_sweep(running: Service, tool: str) -> None:
    """Wait until a sweep has finished: it releases files whose worker has no lease."""
    running.rows(
        "UPDATE search_index_file f SET status = 'indexing', lease_owner = gen_random_uuid()"
        " FROM search_tool t WHERE t.index_id = f.index_id AND t.id = %s RETURNING 1",
        tool,
    )
    # while nothing is open, sweeps are rare, and only every second one is of this worker's queue
    eventually(lambda: running.files(tool)[0]["status"] == "pending", 60, running.logs)


def folder(running: Service, name: str, text: str) -> Path:
    return write(Path(running.env["LOCAL_SOURCE_ROOTS"]) / name, note=text, more=f"More of {text}")


def test_while_a_provider_hangs_folders_are_listed_and_the_sweep_goes_on(
    running: Service, provider: EmbeddingsFake
) -> None:
    hold = provider.holds.add("embeddings", "hanging")
    held = running.local_tool(folder(running, "held", "A hanging text."))
    eventually(lambda: bool(hold.arrived), 60, running.logs)
    other = running.local_tool(folder(running, "other", "Another text."))
    eventually(lambda: not running.status(other)["listing"], 60, running.logs)
    running.rows(
        "UPDATE search_index_file f SET status = 'indexing', lease_owner = gen_random_uuid(), attempts = 7"
        " FROM search_tool t WHERE t.index_id = f.index_id AND t.id = %s RETURNING 1",
        other,
    )
    # the sweep releases what no live process holds
    eventually(lambda: running.files(other)[0]["status"] == "pending", 60, running.logs)
    assert running.status(held)["status"] == "indexing"
    provider.holds.release()
    assert running.wait(held)["indexed_files"] == running.wait(other)["indexed_files"] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="run it on Linux, whose limits of TCP it reads")
def test_connections_to_a_lost_redis_end_soon(redis_url: str) -> None:
    """Those that wait for a message send nothing. Those that sent one would send it again, ever later."""
    with make_app(next_broker(redis_url)) as app, app.connection_for_read() as connection:
        opened = connection.default_channel.client.connection_pool.get_connection()
        try:
            limits = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            found = [opened._sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in limits]
        finally:
            opened.disconnect()
    idle, interval, count, unanswered = found
    assert idle + interval * count == LOST_BROKER_SECONDS
    assert unanswered == LOST_BROKER_SECONDS * 1000


def test_messages_that_nobody_takes_do_not_grow_in_number(running: Service, provider: EmbeddingsFake) -> None:
    hold = provider.holds.add("embeddings", "awaited")
    held = running.local_tool(folder(running, "awaited", "An awaited text."))
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    behind = folder(running, "behind", "A text behind it.")
    for number in range(4 * MAX_SLICES):
        (behind / f"{number}.txt").write_text(f"text {number}\n")
    other = running.local_tool(behind)
    eventually(lambda: not running.status(other)["listing"], 20, running.logs)
    for _ in range(6):
        # no message is known to be on its way
        running.rows("UPDATE search_index_task SET sent_at = now() - interval '1 min' RETURNING 1")
        for _ in range(2):
            wait_for_sweep(running, other)
    with Redis.from_url(running.env["CELERY_BROKER_URL"]) as broker:
        # there is no worker for large folders here
        messages = [orjson.loads(message) for message in broker.lrange("bulk", 0, -1)]
    assert sum(message["headers"]["task"] == "foldex.index" for message in messages) <= 4 * MAX_SLICES
    provider.holds.release()
    running.wait(held)
    running.wait(other)


def test_sweeps_that_nobody_takes_do_not_grow_in_number(running: Service) -> None:
    tool = running.local_tool(folder(running, "swept", "A swept text."))
    running.wait(tool)
    with Redis.from_url(running.env["CELERY_BROKER_URL"]) as broker:

        def sweeps() -> list[bytes]:
            return [message for message in broker.lrange("bulk", 0, -1) if b"foldex.sweep" in message]

        eventually(lambda: bool(sweeps()), 60, running.logs)
        broker.rpush("bulk", *sweeps()[:1] * MAX_WAITING)
        before = len(sweeps())
        for _ in range(4):
            # the sweeps of the other queue continue
            wait_for_sweep(running, tool)
        # one may have been on its way
        assert len(sweeps()) <= before + 1
        broker.delete("bulk")


def test_a_long_queue_does_not_keep_the_sweep_from_its_turn(running: Service, provider: EmbeddingsFake) -> None:
    tool = running.local_tool(folder(running, "crowd", "A text in a crowd."))
    running.wait(tool)
    hold = provider.holds.add("embeddings", "pending")
    running.local_tool(folder(running, "pending", "A pending text."))
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    app = make_app(running.env["CELERY_BROKER_URL"])
    with Redis.from_url(running.env["CELERY_BROKER_URL"]) as broker:
        for _ in range(MANY_MESSAGES):
            app.send_task("foldex.plan", [str(uuid4())], queue="fast")
        # one sweep may have been on its way
        for _ in range(2):
            wait_for_sweep(running, tool)
        assert broker.llen("fast") > MAX_WAITING
        broker.delete("fast")


def test_a_task_that_waits_for_its_provider_takes_nobodys_turn(running: Service) -> None:
    waiting, busy = (running.local_tool(folder(running, name, name), project=name) for name in ("waiting", "busy"))
    running.wait(waiting)
    running.wait(busy)
    waiting, busy = (running.status(tool)["task_id"] for tool in (waiting, busy))
    with psycopg.connect(running.database_url) as connection:

        def fairest() -> str:
            query = load("index/turns")["fairest"]
            values = {
                "preferred": busy,
                "only_small": False,
                "only_words": False,
                **tasks.small_bounds(),
                "refused": [],
                "me": None,
                "host": None,
            }
            row = connection.execute(query, values).fetchone()
            return str(row and row[0])

        connection.execute("DELETE FROM project_turn")
        both = [[waiting, busy]]
        connection.execute("UPDATE search_index_task SET status = 'indexing', sent_at = now() WHERE id = ANY(%s)", both)
        connection.execute("UPDATE search_index_file SET status = 'pending' WHERE task_id = ANY(%s)", both)
        connection.execute("UPDATE search_index_task SET started_at = '-infinity' WHERE id = %s", [waiting])
        assert fairest() == busy
        connection.execute(
            "WITH claimed AS (UPDATE search_index_file SET status = 'indexing', lease_owner = gen_random_uuid()"
            " WHERE id IN (SELECT id FROM search_index_file WHERE task_id = %s LIMIT 1)"
            " RETURNING lease_owner, index_id)"
            " INSERT INTO file_lease (owner, index_id, until) SELECT *, now() + interval '8 s' FROM claimed",
            [busy],
        )
        assert fairest() == waiting
        connection.execute("UPDATE search_index_task SET sent_at = now() + interval '1 min' WHERE id = %s", [waiting])
        assert fairest() == busy
        connection.rollback()


def test_work_is_free_as_soon_as_whoever_did_it_is_done(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # as if the server noticed the end of a connection only later
    with ExitStack() as later, monkeypatch.context() as patch:
        patch.setattr(BoundedConnection, "close", lambda connection: later.callback(Connection.close, connection))
        for _ in range(2):
            with try_exclusive(database_url, "work") as free:
                assert free


def test_a_process_that_is_stopped_keeps_nobody_from_its_work_for_ever(database_url: str) -> None:
    def is_free() -> bool:
        with try_exclusive(database_url, "work") as free:
            return free

    with try_exclusive(database_url, "work") as first, try_exclusive(database_url, "work") as second:
        assert (first, second) == (True, False)
    assert is_free()
    with try_exclusive(database_url, "work", seconds=4) as first:
        assert first
        assert not is_free()
        eventually(is_free, 30)
    assert is_free()


def test_the_clock_goes_whatever_a_power_cut_left_of_a_file(tmp_path: Path, database_url: str, redis_url: str) -> None:
    env = environment(tmp_path, database_url, next_broker(redis_url))
    (tmp_path / "run").mkdir()
    with dbm.open(str(tmp_path / "run" / "beat-schedule"), "c") as torn:
        torn[b"entries"] = b""
    clock = start(programs.beat(env), tmp_path)
    try:
        with Redis.from_url(env["CELERY_BROKER_URL"]) as broker:
            eventually(lambda: bool(broker.llen("fast") and broker.llen("bulk")), 30)
    finally:
        stop([clock])
