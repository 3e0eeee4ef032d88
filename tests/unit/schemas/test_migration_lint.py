"""Migrations hold no lock for long: what `make check` refuses, and what it lets pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MIGRATIONS = sorted((ROOT / "schemas" / "migrations").glob("*.sql"))
#: What may run outside a transaction, without a limit of time: it blocks no reader and no writer.
BLOCKS_NOBODY = re.compile(
    "CREATE (UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS |DROP INDEX CONCURRENTLY IF EXISTS |REINDEX INDEX CONCURRENTLY "
)
OUTSIDE = "-- transactional: false\n-- squawk-disable-assume-in-transaction\n"


def linted(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("squawk")), "--config", str(ROOT / ".squawk.toml"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("CREATE INDEX chunk_page ON chunk (page);", "require-concurrent-index-creation"),
        (
            "CREATE INDEX CONCURRENTLY a ON chunk (page); CREATE INDEX CONCURRENTLY b ON chunk (page);",
            "ban-concurrent-index-creation-in-transaction",
        ),
        (f"{OUTSIDE}CREATE INDEX CONCURRENTLY chunk_page ON chunk (page);", "prefer-robust-stmts"),
        ("DROP INDEX chunk_file;", "require-concurrent-index-deletion"),
        ("ALTER TABLE chunk ADD CONSTRAINT a CHECK (page > 0);", "constraint-missing-not-valid"),
        ("ALTER TABLE chunk ADD CONSTRAINT a UNIQUE (page);", "disallowed-unique-constraint"),
        (
            "ALTER TABLE chunk ADD CONSTRAINT a FOREIGN KEY (file_id) REFERENCES search_index_file (id);",
            "adding-foreign-key-constraint",
        ),
        ("ALTER TABLE chunk ALTER COLUMN page TYPE bigint;", "changing-column-type"),
        ("ALTER TABLE chunk ALTER COLUMN page SET NOT NULL;", "adding-not-nullable-field"),
        ("ALTER TABLE chunk ADD COLUMN a integer NOT NULL;", "adding-required-field"),
        ("ALTER TABLE chunk DROP COLUMN page;", "ban-drop-column"),
        ("ALTER TABLE chunk RENAME COLUMN page TO leaf;", "renaming-column"),
        ("DROP TABLE upkeep;", "ban-drop-table"),
    ],
)
def test_what_would_hold_a_table_or_break_the_previous_release_is_refused(
    tmp_path: Path, statement: str, rule: str
) -> None:
    (tmp_path / "9001_new.sql").write_text(statement)
    refused = linted(tmp_path / "9001_new.sql")
    assert refused.returncode == 1
    assert rule in refused.stdout


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE TABLE host (id uuid PRIMARY KEY, name text NOT NULL);\nCREATE INDEX host_name ON host (name);",
        "ALTER TABLE chunk ADD COLUMN a integer NOT NULL DEFAULT 0;",
        "ALTER TABLE chunk ADD CONSTRAINT a CHECK (page > 0) NOT VALID;",
        "ALTER TABLE chunk VALIDATE CONSTRAINT a;",
        f"{OUTSIDE}CREATE INDEX CONCURRENTLY IF NOT EXISTS chunk_page ON chunk (page);",
        f"{OUTSIDE}DROP INDEX CONCURRENTLY IF EXISTS chunk_file;",
        f"{OUTSIDE}REINDEX INDEX CONCURRENTLY chunk_file;",
    ],
)
def test_what_holds_no_table_passes(tmp_path: Path, statements: str) -> None:
    (tmp_path / "9001_new.sql").write_text(statements)
    passed = linted(tmp_path / "9001_new.sql")
    assert passed.returncode == 0, passed.stdout
    assert "transactional: false" not in statements or blocks_nobody(statements)


def test_a_migration_outside_a_transaction_blocks_nobody() -> None:
    """Nothing limits how long it waits for a lock, behind which others would wait."""
    outside = [path.read_text() for path in MIGRATIONS if "transactional: false" in path.read_text()]
    assert all(map(blocks_nobody, outside))
    assert not blocks_nobody(f"{OUTSIDE}ALTER TABLE chunk ADD COLUMN a integer;")


def blocks_nobody(text: str) -> bool:
    statements = re.sub(r"--.*", "", text).split(";")
    return all(BLOCKS_NOBODY.match(" ".join(each.split())) for each in statements if each.strip())


def test_make_check_lints_every_migration() -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", "check"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ".venv/bin/squawk schemas/migrations/*.sql" in made.splitlines()
