"""Facts that both Python and SQL state are the same; and names of migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import get_args

import psycopg
import pytest

from schemas.errors import FoldexError
from schemas.reason import FileStatus, Reason
from schemas.status import TaskKind, TaskStatus
from worker.settings import Settings
from worker.state.migrate import migrate
from worker.state.schema_version import BASELINE
from worker.stores import STORES

MIGRATIONS = Path(__file__).resolve().parents[3] / "schemas" / "migrations"
CHECKS = """
SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c
WHERE c.contype = 'c' AND c.conrelid = %s::regclass AND c.conkey = ARRAY[(
    SELECT attnum FROM pg_attribute WHERE attrelid = c.conrelid AND attname = %s)]
"""


@pytest.fixture(scope="module")
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


def allowed(connection: psycopg.Connection, table: str, column: str) -> set[str]:
    """The values that a table's CHECK constraint allows in a column."""
    ((definition,),) = connection.execute(CHECKS, (table, column)).fetchall()
    return set(re.findall(r"'([^']*)'", definition))


@pytest.mark.parametrize(
    ("table", "column", "enum"),
    [
        ("search_index_task", "status", TaskStatus),
        ("search_index_task", "kind", TaskKind),
        ("search_index_file", "status", FileStatus),
        ("search_index_file", "reason", Reason),
    ],
)
def test_enums_and_check_constraints_agree(
    connection: psycopg.Connection, table: str, column: str, enum: type[StrEnum]
) -> None:
    assert allowed(connection, table, column) == {member.value for member in enum}


def test_stores_and_check_constraints_agree(connection: psycopg.Connection) -> None:
    assert allowed(connection, "search_index", "vector_store") == STORES.keys()


def test_settings_and_check_constraints_agree(connection: psycopg.Connection) -> None:
    choices, _ = get_args(Settings.model_fields["keyword_index"].annotation)
    assert allowed(connection, "search_index", "keyword_index") == set(get_args(choices))


def test_every_reason_has_a_remedy_and_a_status() -> None:
    for reason in Reason:
        what, _, to_do = reason.remedy.partition("; ")
        assert what
        assert to_do.endswith(".")
        assert reason.status in {FileStatus.SKIPPED, FileStatus.FAILED}


def test_migrations_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in MIGRATIONS.iterdir())
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name) for name in names), names
    first = int(BASELINE[:4]) + 1
    assert [int(name[:4]) for name in names] == list(range(first, first + len(names)))


def test_migrating_twice_changes_nothing(connection: psycopg.Connection, database_url: str) -> None:
    tables = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
    before = connection.execute(tables).fetchall()
    migrate(database_url)
    assert sorted(connection.execute(tables).fetchall()) == sorted(before)


def test_every_error_has_a_code_of_its_own() -> None:
    found, waiting = [], [FoldexError]
    while waiting:
        error = waiting.pop()
        found.append(error.code)
        waiting += error.__subclasses__()
    assert len(set(found)) == len(found)
