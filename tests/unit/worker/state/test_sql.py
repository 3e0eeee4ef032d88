"""Rules for the queries in `.sql` files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker.state.queries import load

ROOT = Path(__file__).parents[4] / "worker/state"
FILES = sorted(ROOT.rglob("*.sql"))
INCLUDED = re.compile(r"(?<!:):([a-z_]+)")


def queries(path: Path) -> dict[str, str]:
    """The queries of a file as they are sent."""
    return {name: sql.as_string(None) for name, sql in load(str(path.relative_to(ROOT).with_suffix(""))).items()}


def unbounded(sql: str) -> list[str]:
    """Subqueries of the form `IN (SELECT … LIMIT … SKIP LOCKED)`."""
    subqueries = (sql[match.end() : closing(sql, match.end())] for match in re.finditer(r"\bIN \((?=\s*SELECT\b)", sql))
    return [query for query in subqueries if re.search(r"\bLIMIT\b.*\bSKIP LOCKED\b", query, re.DOTALL)]


def closing(sql: str, start: int) -> int:
    """The position where the parenthesis closes that opens before `start`."""
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


def test_fragments_are_included_to_the_last() -> None:
    assert not [name for path in FILES for name, sql in queries(path).items() if INCLUDED.search(sql)]
    assert "u.prefix)) = u.prefix" in queries(ROOT / "index/listings.sql")["note_all_absent"]
    assert "t.status IN ('pending', 'indexing')" in queries(ROOT / "index/messages.sql")["unplanned"]


def test_a_query_keeps_its_comments_and_takes_over_none() -> None:
    sql = queries(ROOT / "index/tasks.sql")["retry_files"]
    assert "-- what the listing reported" in sql
    assert "a file that becomes pending" not in sql


def test_a_fragment_is_shared_and_nobody_repeats_it() -> None:
    fragments = {name: re.sub(r"--.*\n", "", sql) for name, sql in queries(ROOT / "fragments.sql").items()}
    included = INCLUDED.findall("".join(path.read_text() for path in FILES))
    texts = "".join(path.read_text() for path in FILES if path.stem != "fragments")
    for name, sql in fragments.items():
        assert included.count(name) > 1, name
        assert sql not in texts, name
