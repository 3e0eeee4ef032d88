"""Processes of a release whose migrations the database lacks wait for them, and the API says so."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.types.json import Jsonb
from structlog.testing import capture_logs

from api.cli import database
from api.main import create_app
from api.stack import programs
from api.stack.processes import start, stop
from schemas.errors import SchemaBehind
from tests.service import (
    PROJECT,
    TOOLS,
    NewService,
    Service,
    api_alone,
    eventually,
    new_database,
    with_clock,
    worker_of_all_queues,
)
from tests.shared_service import local_settings
from worker.hosts.presence import NOTE_SECONDS
from worker.settings import LOCAL_MODEL, Settings
from worker.state import schema_version
from worker.state.schema_version import BASELINE, needed

LACKS, GOES_ON = "lacks migrations of this release", "going on"
#: Columns whose type can change without another meaning, as the release after may do.
CHANGED = """
    SELECT format('ALTER TABLE %I ALTER COLUMN %I TYPE %s', table_name, column_name,
                  CASE udt_name WHEN 'text' THEN 'varchar' WHEN 'int4' THEN 'bigint' END)
    FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name IN ('search_tool', 'search_index_task', 'search_index_file', 'chunk')
      AND udt_name IN ('text', 'int4') AND is_generated = 'NEVER'
      AND column_name NOT IN (SELECT column_name FROM information_schema.view_column_usage)
    """


@pytest.fixture(scope="module")
def behind(new_service: NewService, root: Path) -> Iterator[Service]:
    """An API without workers, over a database that lacks the newest migration."""
    with new_service(over_an_old_schema, **local_settings(root)) as started:
        yield started


@contextmanager
def over_an_old_schema(env: Mapping[str, str]) -> Iterator[Service]:
    """An API that has never seen the newest migration."""
    with psycopg.connect(env["DATABASE_URL"]) as admin:
        admin.execute("CREATE TABLE newest AS SELECT * FROM _yoyo_migration ORDER BY migration_id DESC LIMIT 1")
        admin.execute("DELETE FROM _yoyo_migration WHERE migration_id IN (SELECT migration_id FROM newest)")
    with api_alone(env, "--no-migrate") as started:
        yield started


def test_all_wait_for_the_migration_and_then_work(behind: Service, root: Path) -> None:
    refused = behind.client.get("/readyz")
    assert (refused.status_code, refused.json()["code"]) == (503, "schema_behind")
    assert needed()[-1] in refused.json()["detail"]
    assert behind.client.get(TOOLS, params={"project_id": PROJECT}).json()["code"] == "schema_behind"
    assert behind.client.get("/healthz").status_code == 200
    assert "foldex_requests_total" in behind.client.get("/metrics").text

    worker = start(with_clock(worker_of_all_queues(behind.env), behind.home), behind.home)
    beat, log = start(programs.beat(behind.env), behind.home), behind.home / "log"
    try:
        for name in (worker.program.name, "beat"):
            eventually(lambda name=name: LACKS in (log / f"{name}.log").read_text(), 60, behind.logs)  # type: ignore[misc]
        # for some looks more
        time.sleep(3 * schema_version.LOOK_SECONDS)
        assert not worker.program.ready()
        behind.rows("INSERT INTO _yoyo_migration SELECT * FROM newest")
        eventually(lambda: behind.client.get("/readyz").status_code == 200, 10)
        (root / "a.md").write_text("The harbour closes at night.")
        tool = behind.local_tool(root)
        behind.wait(tool)
        eventually(lambda: behind.rows("SELECT FROM host_process WHERE role = 'api'") != [], 2 * NOTE_SECONDS)
        for name in (worker.program.name, "beat"):
            text = (log / f"{name}.log").read_text()
            assert (text.count(LACKS), text.count(GOES_ON)) == (1, 1), text
            assert "UndefinedColumn" not in text
        _answers_after_a_migration(behind, tool)
    finally:
        stop([worker, beat])


def _answers_after_a_migration(behind: Service, tool: str) -> None:
    """The API has prepared its statements when a newer release changes what they return."""
    paths = [TOOLS, *(f"{TOOLS}/{tool}{rest}" for rest in ("", "/status", "/files", "/tasks", "/symbols"))]

    def asked() -> list[int]:
        answers = [behind.client.get(path, params={"project_id": PROJECT}).status_code for path in paths]
        answers.append(behind.client.post(f"{TOOLS}/{tool}/query", json={"query": "harbour"}).status_code)
        return answers

    for _ in range(10):
        assert {*asked()} == {200}
    with psycopg.connect(behind.database_url) as admin:
        for (statement,) in admin.execute(CHANGED.encode()).fetchall():
            admin.execute(statement.encode())
    for _ in range(10):
        assert {*asked()} == {200}


def test_a_process_that_waits_for_an_older_database_names_the_commit_that_migrates_it(database_url: str) -> None:
    stop_it = Event()
    renamed = "UPDATE _yoyo_migration SET migration_id = %s WHERE migration_id = %s"
    with psycopg.connect(database_url, autocommit=True) as admin, capture_logs() as logs:
        admin.execute(renamed, ("0042_secrets", BASELINE))
        waiting = Thread(target=schema_version.wait, args=(database_url, stop_it))
        waiting.start()
        try:
            eventually(lambda: bool(logs), 10)
            assert "0f3f536b" in logs[0]["event"]
        finally:
            admin.execute(renamed, (BASELINE, "0042_secrets"))
            waiting.join(10)
        assert GOES_ON in logs[-1]["event"]


def test_a_process_that_waits_says_each_reason_once_and_can_be_stopped(database_url: str) -> None:
    stop_it = Event()
    with psycopg.connect(database_url, autocommit=True) as admin, capture_logs() as logs:
        admin.execute("ALTER TABLE _yoyo_migration RENAME TO away")
        waiting = Thread(target=schema_version.wait, args=(database_url, stop_it))
        waiting.start()
        try:
            eventually(lambda: bool(logs), 10)
            time.sleep(2 * schema_version.LOOK_SECONDS)
            assert waiting.is_alive()
            assert [LACKS in line["event"] for line in logs] == [True]
        finally:
            stop_it.set()
            waiting.join()
            admin.execute("ALTER TABLE away RENAME TO _yoyo_migration")
        # what a newer release has applied does no harm
        admin.execute("INSERT INTO _yoyo_migration SELECT 'newer', '9999_newer', now()::timestamp")
        schema_version.wait(database_url)
        assert len(logs) == 1


@pytest.mark.parametrize(
    ("column", "value", "unknown"),
    [
        ("config", {"refs": ["main"]}, "config.refs"),
        ("source", {"kind": "git", "url": "https://git.example.org/docs"}, "source"),
    ],
)
def test_a_tool_that_a_newer_release_wrote_is_not_read_halfway(
    database_url: str, tmp_path: Path, column: str, value: dict[str, Any], unknown: str
) -> None:
    settings = Settings(
        database_url=database_url,
        foldex_home=tmp_path / "home",
        local_source_roots=[tmp_path],
        default_embedding_model=LOCAL_MODEL,
        auth="off",
    )
    project = uuid4().hex
    with TestClient(create_app(settings), base_url="http://127.0.0.1", client=("127.0.0.1", 50000)) as client:
        body = {"project_id": project, "source": {"kind": "local", "path": str(tmp_path)}}
        tool = client.post(TOOLS, json=body).json()["tool_id"]
        with psycopg.connect(database_url) as admin:
            admin.execute(f"UPDATE search_tool SET {column} = %s WHERE id = %s", (Jsonb(value), tool))
        for method, path, sent in (
            ("GET", f"{TOOLS}/{tool}", None),
            ("GET", f"{TOOLS}?project_id={project}", None),
            ("PATCH", f"{TOOLS}/{tool}", {"name": "other"}),
            ("POST", f"{TOOLS}/{tool}/reindex", {}),
            ("POST", f"{TOOLS}/{tool}/cancel", {}),
            ("DELETE", f"{TOOLS}/{tool}", None),
        ):
            answer = client.request(method, path, json=sent)
            assert (answer.status_code, answer.json()["code"]) == (503, "release_behind"), (method, path)
            assert f"cannot read its {unknown}" in answer.json()["detail"]


def test_a_command_makes_the_tables_of_a_new_database_and_leaves_an_older_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = "_yoyo_migration WHERE migration_id IN (SELECT max(migration_id) FROM _yoyo_migration)"
    with new_database(postgres_url) as url:
        monkeypatch.setattr(database, "read_settings", lambda: Settings(database_url=url))
        with database.open_database() as pool, pool.connection() as connection:
            applied = [name for (name,) in connection.execute("SELECT migration_id FROM _yoyo_migration ORDER BY 1")]
            assert applied == [*needed()]
            connection.execute(f"DELETE FROM {newest}")
        with database.open_database() as pool, pytest.raises(SchemaBehind, match=applied[-1]), pool.connection():
            pass
