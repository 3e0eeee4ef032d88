"""Several processes that start at once bring the tables up to this release together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg

from tests.service import eventually, new_database
from worker.state.migrate import MIGRATION_LOCK, migrate

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = %s::oid"
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"


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
