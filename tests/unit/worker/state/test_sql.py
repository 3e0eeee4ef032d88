"""Rules for the queries in `.sql` files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[4] / "worker/state").rglob("*.sql"))


def unbounded(sql: str) -> list[str]:
    """Subqueries of the form `IN (SELECT … LIMIT … SKIP LOCKED)`."""
    subqueries = (sql[match.end() : closing(sql, match.end())] for match in re.finditer(r"\bIN \((?=\s*SELECT\b)", sql))
    return [query for query in subqueries if re.search(r"\bLIMIT\b.*\bSKIP LOCKED\b", query, re.DOTALL)]


def closing(sql: str, start: int) -> int:
    """Where the parenthesis that opens before `start` is closed."""
    depth = 1
    for match in re.finditer(r"[()]", sql[start:]):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return start + match.start()
    return len(sql)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_no_batch_outgrows_its_limit(path: Path) -> None:
    """Postgres may run such a subquery once for each outer row; each run skips the rows that the last one locked."""
    assert not unbounded(path.read_text()), "write `= ANY (ARRAY (SELECT …))`, which runs once"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WHERE a IN (\n SELECT a FROM b\n ORDER BY c LIMIT 5 FOR UPDATE SKIP LOCKED)", 1),
        ("WHERE a IN (SELECT a FROM b WHERE NOT EXISTS (SELECT FROM c) LIMIT 5 FOR UPDATE SKIP LOCKED)", 1),
        ("WHERE a IN (SELECT a FROM b FOR UPDATE SKIP LOCKED)", 0),
        ("WHERE a IN (SELECT a FROM b) LIMIT 5 FOR UPDATE SKIP LOCKED", 0),
        ("WHERE a IN (SELECT a FROM b LIMIT 5)", 0),
        ("WHERE a = ANY (ARRAY (SELECT a FROM b LIMIT 5 FOR UPDATE SKIP LOCKED))", 0),
        ("WITH c AS (SELECT a FROM b LIMIT 5 FOR UPDATE SKIP LOCKED)", 0),
    ],
)
def test_the_search_finds_these_alone(query: str, expected: int) -> None:
    assert len(unbounded(query)) == expected
