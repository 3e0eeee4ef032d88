"""Several processes that start at once migrate the tables to this release together."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from api.cli.commands import main
from tests.service import eventually, new_database
from worker.state.migrate import MIGRATION_LOCK, migrate

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = %s::oid"
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"

KEPT = Path(__file__).with_name("schema.txt")
#: Queries that describe the columns, constraints, indexes and sequences of our tables, one per line.
SCHEMA = (
    """
    SELECT concat_ws(' ', 'column', table_name || '.' || column_name, udt_name,
                     CASE is_nullable WHEN 'NO' THEN 'NOT NULL' END, 'DEFAULT ' || column_default,
                     'AS ' || generation_expression)
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
)


def test_one_process_migrates_and_the_others_wait(postgres_url: str, template_url: str) -> None:
    with new_database(postgres_url) as url, psycopg.connect(url, autocommit=True) as held, ThreadPoolExecutor(2) as two:

        def number(query: str, *values: object) -> int:
            (found,) = held.execute(query.encode(), values or None).fetchone() or (0,)
            return int(found)

        database = number("SELECT oid FROM pg_database WHERE datname = current_database()")
        held.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        migrating = [two.submit(migrate, url) for _ in range(2)]
        try:
            eventually(lambda: number(WAITING, database) == 2, 30)
            assert number(TABLES) == 0
        finally:
            held.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))
        for each in migrating:
            each.result(60)
        with psycopg.connect(template_url) as template:
            assert template.execute(TABLES).fetchone() == (number(TABLES),)


def test_the_command_migrates_the_database_of_the_stack_that_runs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_database(postgres_url) as url:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.setattr("api.cli.commands.environment", lambda _: {"DATABASE_URL": url})
        done = CliRunner().invoke(main, ["migrate"])
        assert (done.exit_code, done.output) == (0, "The database is up to date.\n")
        with psycopg.connect(url) as migrated:
            assert migrated.execute("SELECT count(*) FROM search_tool").fetchone() == (0,)


def test_the_migrations_make_the_schema_that_is_kept(template_url: str) -> None:
    """`schema.txt` shows in a review what a migration changes. `KEEP_SCHEMA=1 pytest …` writes it."""
    with psycopg.connect(template_url) as connection:
        lines = [line for query in SCHEMA for (line,) in connection.execute(query.encode()).fetchall()]
    made = "\n".join(lines) + "\n"
    if os.environ.get("KEEP_SCHEMA"):
        KEPT.write_text(made)
    assert made == KEPT.read_text(), "run this test with KEEP_SCHEMA=1 and look at the difference"
