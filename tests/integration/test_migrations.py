"""Several processes that start at once migrate the tables to this release together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from api.cli.commands import main
from schemas.errors import SchemaBehind
from tests.service import eventually, new_database
from worker.state import schema_version
from worker.state.migrate import MIGRATION_LOCK, migrate
from worker.state.schema_version import BASELINE, SchemaGate, needed

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'foldex migrate' AND datname = current_database()"
)
APPLIED = "SELECT to_regclass('_yoyo_migration')"
#: How much of a migration was done: its transaction locks what it makes.
STEPS = (
    "SELECT count(*) FROM pg_locks WHERE pid IN (SELECT pid FROM pg_stat_activity"
    " WHERE application_name = 'foldex migrate' AND datname = current_database())"
)
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
NOTED = "SELECT count(*) FROM _yoyo_migration WHERE migration_id = '9001_index'"
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name !~ 'yoyo'"

KEPT = Path(__file__).with_name("schema.txt")
#: A dump of a database of the last commit before the first release, with a run under way.
BEFORE = Path(__file__).with_name("before_first_release.sql")
#: The first migration that such a database lacks.
FIRST_RELEASE = "0047_first_release"
TABLES_WITH_ROWS = ("search_index", "search_tool", "search_index_task", "search_index_file", "chunk", "symbol_use")
#: Columns that such a database keeps for one release, with their types.
LEFT = {
    "search_index_change.paths_by": "xid8",
    "search_index_file.lease_until": "timestamptz",
    "search_index_task.refreshed_at": "timestamptz",
}
#: Queries that describe all that migrations make, one per line.
SCHEMA = (
    """
    SELECT concat_ws(' ', 'column', table_name || '.' || column_name, udt_name,
                     CASE is_nullable WHEN 'NO' THEN 'NOT NULL' END, 'DEFAULT ' || column_default,
                     'COLLATE ' || collation_name)
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name !~ 'yoyo'
    ORDER BY table_name, column_name
    """,
    """
    SELECT concat_ws(' ', 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid))
    FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND contype <> 'n' AND conrelid::regclass::text !~ 'yoyo'
    ORDER BY conrelid::regclass::text COLLATE "C", conname
    """,
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename !~ 'yoyo' ORDER BY tablename, indexname",
    "SELECT 'sequence ' || sequencename FROM pg_sequences WHERE schemaname = 'public' ORDER BY sequencename",
    """
    SELECT concat_ws(' ', CASE relpersistence WHEN 'u' THEN 'unlogged' END, 'table', relname, reloptions::text)
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname !~ 'yoyo'
      AND (relpersistence = 'u' OR reloptions IS NOT NULL) ORDER BY relname
    """,
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname",
    "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname",
)


@contextmanager
def emptied(postgres_url: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A database without tables, and a function that returns the first value of a query over it."""
    with new_database(postgres_url) as url, psycopg.connect(url, autocommit=True) as connection:

        def value(query: str, *values: object) -> Any:
            (found,) = connection.execute(query.encode(), values or None).fetchone() or (None,)
            return found

        yield url, value


def test_one_process_migrates_and_the_others_wait(postgres_url: str, template_url: str) -> None:
    with (
        emptied(postgres_url) as (url, value),
        psycopg.connect(url, autocommit=True) as held,
        ThreadPoolExecutor(2) as two,
    ):
        held.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        migrating = [two.submit(migrate, url) for _ in range(2)]
        try:
            eventually(lambda: bool(value(WAITING) == 2), 30)
            assert value(APPLIED) is None
        finally:
            held.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))
        for each in migrating:
            each.result(60)
        with psycopg.connect(template_url) as template:
            assert template.execute(TABLES).fetchone() == (value(TABLES),)


def test_a_process_that_is_killed_at_any_moment_leaves_what_the_next_one_completes(
    postgres_url: str, template_url: str
) -> None:
    chance = Random(11)
    program = "import sys; from worker.state.migrate import migrate; print('begins', flush=True); migrate(sys.argv[1])"
    with emptied(postgres_url) as (url, value), psycopg.connect(template_url) as template:
        ((whole,),) = template.execute(TABLES).fetchall()
        for _ in range(6):
            command = [sys.executable, "-c", program, url]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                assert process.stdout
                assert process.stdout.readline() == "begins\n"
                # at this moment of its work, which takes longer on a busy machine
                steps = chance.randint(2, 100)
                while value(STEPS) < steps and process.poll() is None:
                    pass
                process.send_signal(SIGKILL)
            eventually(lambda: value(WAITING) == 0, 30)
            # all of the baseline, or nothing
            assert value(TABLES) in {0, whole}
        migrate(url)
        assert described_at(url) == described_at(template_url)


def test_a_table_that_is_held_makes_a_migration_try_again_and_nobody_else_wait(
    postgres_url: str, template_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(schema_version, "files", lambda _: tmp_path)
    written(tmp_path, "9001_column", "ALTER TABLE upkeep ADD COLUMN more text;")
    with (
        new_database(postgres_url, template_url) as url,
        psycopg.connect(url) as held,
        psycopg.connect(url, autocommit=True) as other,
        ThreadPoolExecutor(1) as one,
    ):
        held.execute("SELECT FROM upkeep")
        migrating = one.submit(migrate, url)
        eventually(lambda: bool(other.execute(BLOCKED).fetchone() == (1,)), 30)
        # the migration gives way to whoever came after it
        other.execute("SET lock_timeout = '10s'")
        other.execute("SELECT FROM upkeep")
        assert not migrating.done()
        held.rollback()
        migrating.result(30)
        assert other.execute("SELECT more FROM upkeep").fetchall() == []


def test_a_migration_that_would_deadlock_tries_again(
    postgres_url: str, template_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(schema_version, "files", lambda _: tmp_path)
    columns = ("ALTER TABLE upkeep ADD COLUMN more text;", "ALTER TABLE api_key ADD COLUMN more text;")
    written(tmp_path, "9001_columns", "\n".join(columns))
    with (
        new_database(postgres_url, template_url) as url,
        psycopg.connect(url) as held,
        psycopg.connect(url, autocommit=True) as other,
        ThreadPoolExecutor(1) as one,
    ):
        # the migration is the one that finds the deadlock
        held.execute("SET deadlock_timeout = '1h'")
        held.execute("SELECT FROM api_key")
        migrating = one.submit(migrate, url)
        eventually(lambda: bool(other.execute(BLOCKED).fetchone() == (1,)), 30)
        held.execute("SELECT FROM upkeep")
        held.rollback()
        migrating.result(30)
        assert other.execute("SELECT u.more, k.more FROM upkeep u, api_key k").fetchall() == []


def test_an_index_that_was_not_built_to_its_end_is_built_anew(
    postgres_url: str, template_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(schema_version, "files", lambda _: tmp_path)
    days = "upkeep_days ON upkeep (date_trunc('day', ran_at AT TIME ZONE 'UTC'))"
    build = f"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {days};"
    written(tmp_path, "9001_index", f"-- transactional: false\n\n{build}")
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'upkeep_days'::regclass"
    with new_database(postgres_url, template_url) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO upkeep (name, ran_at) VALUES ('a', now()), ('b', now())")
        with pytest.raises(psycopg.errors.UniqueViolation):
            migrate(url)
        assert connection.execute(valid).fetchone() == (False,)
        connection.execute("DELETE FROM upkeep WHERE name = 'b'")
        # a transaction that began before holds no process up but the one that builds
        with psycopg.connect(url) as older, ThreadPoolExecutor(2) as two:
            older.execute("UPDATE upkeep SET ran_at = now()")
            migrating = [two.submit(migrate, url) for _ in range(2)]
            eventually(lambda: bool(connection.execute(BLOCKED).fetchone() != (0,)), 30)
            connection.execute("SELECT FROM upkeep")
            older.rollback()
            for each in migrating:
                each.result(30)
        assert connection.execute(valid).fetchone() == (True,)
        assert connection.execute(
            "SELECT count(*) FROM _yoyo_migration WHERE migration_id = '9001_index'"
        ).fetchone() == (1,)


def written(directory: Path, name: str, text: str) -> None:
    (directory / "migrations").mkdir(exist_ok=True)
    (directory / "migrations" / f"{name}.sql").write_text(text)


@contextmanager
def before_the_first_release(postgres_url: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A database as the last commit before the first release left it."""
    with emptied(postgres_url) as (url, value), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BEFORE.read_bytes())
        yield url, value


def take_back(url: str, names: Sequence[str]) -> None:
    """Undo those of these migrations that were applied; each only adds tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in names:
            noted = "DELETE FROM _yoyo_migration WHERE migration_id = %s RETURNING 1"
            if connection.execute(noted, (name,)).fetchone():
                made = re.findall(r"CREATE TABLE (\w+)", schema_version.script(name).read_text())
                connection.execute(f"DROP TABLE {', '.join(made)}".encode())


@pytest.mark.parametrize("lacking", [[*needed()[1:]], [*needed()[needed().index(FIRST_RELEASE) :]]])
def test_a_database_before_the_first_release_becomes_as_a_new_one_and_keeps_its_rows(
    postgres_url: str, template_url: str, lacking: list[str]
) -> None:
    applied: list[str] = []
    with before_the_first_release(postgres_url) as (url, value), ThreadPoolExecutor(2) as two:
        take_back(url, lacking)
        kept = {table: value(f"SELECT count(*) FROM {table}") for table in TABLES_WITH_ROWS}
        for each in [two.submit(migrate, url, lambda name, _: applied.append(name)) for _ in range(2)]:
            each.result(60)
        assert applied == lacking
        assert {table: value(f"SELECT count(*) FROM {table}") for table in TABLES_WITH_ROWS} == kept
        assert all(kept.values())
        # what its own rows lacked
        assert value("SELECT count(*) FROM search_index i JOIN namespace_name n ON n.name = i.namespace") == 1
        assert value("SELECT count(*) FROM file_lease") == 1
        # what statements of the commit before name stays for one release
        columns = {f"column {name} {kind}" for name, kind in LEFT.items()}
        assert columns < {*described_at(url)}
        assert [line for line in described_at(url) if line not in columns] == described_at(template_url)


def test_an_older_database_is_refused_with_the_commit_that_migrates_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with before_the_first_release(postgres_url) as (url, value):
        value("DELETE FROM _yoyo_migration WHERE migration_id = %s RETURNING 1", BASELINE)
        before = described_at(url)
        monkeypatch.setattr("api.cli.database.environment", lambda _: {"DATABASE_URL": url})
        monkeypatch.delenv("DATABASE_URL", raising=False)
        for arguments in (["migrate"], ["migrate", "--check"]):
            refused = CliRunner().invoke(main, arguments).exception
            assert isinstance(refused, SchemaBehind)
            assert "commit 0f3f536b of 2026-11-29" in refused.message
        with psycopg.connect(url) as connection:
            with pytest.raises(SchemaBehind, match="0f3f536b"):
                SchemaGate().check(connection)
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert described_at(url) == before


def test_the_command_says_what_it_did_and_what_is_missing(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_database(postgres_url) as url:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.setattr("api.cli.database.environment", lambda _: {"DATABASE_URL": url})
        missing = CliRunner().invoke(main, ["migrate", "--check"])
        assert missing.exit_code == 1
        assert f"lacks {len(needed())} migrations: {BASELINE}, " in missing.output
        done = CliRunner().invoke(main, ["migrate"])
        *applied, last = done.output.splitlines()
        assert (done.exit_code, last) == (0, "The database is up to date.")
        assert [line.split()[1] for line in applied] == list(needed())
        for again in (["migrate"], ["migrate", "--check"]):
            nothing = CliRunner().invoke(main, again)
            assert (nothing.exit_code, nothing.output) == (0, "The database is up to date.\n")
        with psycopg.connect(url) as migrated:
            assert migrated.execute("SELECT count(*) FROM search_tool").fetchone() == (0,)


def test_the_migrations_make_the_schema_that_is_kept(template_url: str) -> None:
    """`schema.txt` shows in a review what a migration changes. `KEEP_SCHEMA=1 pytest …` writes it."""
    made = "\n".join(described_at(template_url)) + "\n"
    if os.environ.get("KEEP_SCHEMA"):
        KEPT.write_text(made)
    assert made == KEPT.read_text(), "run this test with KEEP_SCHEMA=1 and look at the difference"


def described_at(url: str) -> list[str]:
    """A line for each column, constraint, index and so on of our tables."""
    with psycopg.connect(url) as connection:
        found = [text for query in SCHEMA for (text,) in connection.execute(query.encode()).fetchall()]
    return [" ".join(text.split()) for text in found]
