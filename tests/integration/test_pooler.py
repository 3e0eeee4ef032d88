"""The service behind PgBouncer: in transaction mode, with few connections to the server, and in session mode."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.fakes.embeddings import EmbeddingsFake
from tests.pgbouncer import pgbouncer
from tests.service import environment, next_broker, service
from worker.state.address import PooledAddress
from worker.state.connections import BRIEF, BoundedConnection
from worker.state.pool import open_pool

#: The limits that connections have as options where there is no pooler.
LIMITS = {"statement_timeout": "120s", "lock_timeout": "20s", "idle_in_transaction_session_timeout": "8s"}
#: Connections to the server, fewer than the service's processes would open.
FEW = 3


@pytest.fixture
def limited_url(database_url: str) -> str:
    """A database whose role has the limits, as the guide says."""
    to = conninfo_to_dict(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name, value in LIMITS.items():
            connection.execute(f"ALTER ROLE {to['user']} IN DATABASE {to['dbname']} SET {name} = '{value}'".encode())
    return database_url


def test_a_pool_behind_a_pooler_keeps_no_session(tmp_path: Path, limited_url: str) -> None:
    with (
        pgbouncer(tmp_path, limited_url, "transaction", size=1) as url,
        open_pool(PooledAddress(url)) as pool,
        open_pool(PooledAddress(url)) as other,
    ):
        for turn in range(12):  # often enough that psycopg would prepare the statement
            for each in (pool, other):
                with each.connection() as connection:
                    assert connection.execute("SELECT %s::int", (turn,)).fetchone() == (turn,)
        with pool.connection() as connection:
            assert [connection.execute(f"SHOW {name}".encode()).fetchone() for name in LIMITS] == [
                ("2min",),
                ("20s",),
                ("8s",),
            ]


def test_a_plain_url_of_a_pooler_is_rejected_with_its_reason(tmp_path: Path, limited_url: str) -> None:
    with (
        pgbouncer(tmp_path, limited_url, "transaction", size=1) as url,
        pytest.raises(psycopg.OperationalError, match="options"),
    ):
        BoundedConnection.open(url, BRIEF)


def test_an_index_is_built_behind_a_pooler_in_transaction_mode(
    tmp_path: Path, limited_url: str, redis_url: str, provider: EmbeddingsFake
) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nIts text is about the number {number}.\n")
    with pgbouncer(tmp_path, limited_url, "transaction", size=FEW) as url:
        given = {**provider.env, "LOCAL_SOURCE_ROOTS": str(tmp_path), "DATABASE_SESSION_URL": limited_url}
        with service(environment(tmp_path / "home", url, next_broker(redis_url), **given)) as running:
            tool = running.local_tool(folder)
            assert running.wait(tool)["indexed_files"] == 40
            (folder / "0.md").write_text("# Note\n\nA text that is new.\n")
            running.post(f"/api/tools/search/{tool}/reindex", {})
            running.wait(tool)
            assert running.query(tool, "a text that is new")[0]["file_path"] == "0.md"


def test_session_mode_needs_the_options_ignored(tmp_path: Path, limited_url: str) -> None:
    with (
        pgbouncer(tmp_path, limited_url, "session", size=2, more="ignore_startup_parameters = options") as url,
        open_pool(url) as pool,
    ):
        for _ in range(12):
            with pool.connection() as connection:
                assert connection.execute("SHOW lock_timeout").fetchone() == ("20s",)
