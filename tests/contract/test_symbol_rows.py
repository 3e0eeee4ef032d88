"""Which definitions and uses are found: random rows of two indexes, compared with a model of them."""

from __future__ import annotations

from itertools import islice, zip_longest
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from schemas.content.document import CodeDefinition, CodeReference
from tests.contract.test_keywords import Index
from worker.state.connections import REQUEST
from worker.state.pool import Pool, open_pool
from worker.state.search import symbols
from worker.state.search.symbols import qualified

#: Names and scopes that begin or end as others do, or differ in case.
NAMES = ["run", "Run", "runner", "f", "m.run"]
SCOPES = ["", "A", "A/B", "xA", "B", "A2"]
KINDS = ["function", "variable", "class", "constant"]
USES = ["call", "import", "base"]


class Rows(NamedTuple):
    """Definitions, uses and chunks of an index, beside those of another one."""

    index_id: UUID
    files: list[UUID]
    defined: list[dict[str, Any]]
    used: list[dict[str, Any]]
    chunks: list[dict[str, Any]]


def rows(pool: Pool, random: Random) -> Rows:
    files = [Index(pool, ["text"] * 3, path=f"{number}.py") for number in range(6)]
    first, second = files[0].id, files[1].id
    with pool.connection() as connection:
        for number, file in enumerate(files):
            index_id = first if number % 3 != 1 else second
            connection.execute("UPDATE search_index_file SET index_id = %s WHERE id = %s", (index_id, file.file_id))
            for chunk in file.placed:
                columns = "index_id = %s, symbol = %s, live = %s, start_line = %s, end_line = %s"
                start = random.randint(1, 9)
                values = (random.choice([None, *NAMES]), random.random() < 0.8, start, start + random.randint(0, 5))
                connection.execute(f"UPDATE chunk SET {columns} WHERE id = %s".encode(), (index_id, *values, chunk.id))
            definitions = [_definition(random) for _ in range(8)]
            uses = [
                CodeReference(random.choice(NAMES), random.choice(USES), _scope(random), random.randint(1, 9))
                for _ in range(8)
            ]
            of_file = [(file.file_id, definitions, uses)]
            symbols.replace(connection, index_id, files=[file.file_id], file_symbols=of_file)
        cursor = connection.cursor(row_factory=dict_row)
        found = [
            cursor.execute(f"SELECT * FROM {table} WHERE index_id = %s".encode(), (first,)).fetchall()
            for table in ("symbol", "symbol_reference", "chunk")
        ]
    return Rows(first, [file.file_id for file in files], *found)


def _definition(random: Random) -> CodeDefinition:
    start = random.randint(1, 9)
    name, kind, scope = random.choice(NAMES), random.choice(KINDS), _scope(random)
    return CodeDefinition(name, kind, scope, 0, 0, 1, start, start + random.randint(0, 3), "")


def _scope(random: Random) -> tuple[str, ...]:
    return tuple(filter(None, random.choice(SCOPES).split("/")))


def is_in(scope: str, asked: str) -> bool:
    """Whether a definition's scope ends with the scope that is asked for."""
    return f"/{scope}".endswith(f"/{asked}") or not asked


@pytest.mark.parametrize("size", [2, 5, 100])
def test_definitions_are_paged_by_name_file_and_position(pool: Pool, size: int) -> None:
    made = rows(pool, Random(size))
    paths = {file: f"{number}.py" for number, file in enumerate(made.files)}
    queries: list[dict[str, Any]] = [{}, {"prefix": "run"}, {"prefix": "R", "kind": "class"}, {"kind": "variable"}]
    queries += [{"name": name} for name in (*NAMES, "A.run", "B.run", "A.B.run", "A2.f")]
    for asked in queries:
        scope, name = qualified(asked["name"]) if "name" in asked else ("", None)
        expected = [
            d
            for d in made.defined
            if name in {None, d["name"]}
            and is_in(d["scope"], scope)
            and d["name"].startswith(asked.get("prefix", ""))
            and asked.get("kind") in {None, d["kind"]}
        ]
        expected.sort(key=lambda d: (d["name"], paths[d["file_id"]], d["number"]))
        found: list[tuple[UUID, int]] = []
        after = None
        while page := symbols.definitions(pool, made.index_id, after=after, limit=size, **asked):
            found += [(d.file_id, d.number) for d in page]
            assert len(found) <= len(expected), asked
            last = page[-1]
            after = last.name, last.file_path, last.file_id_path, last.file_id, last.number
        assert found == [(d["file_id"], d["number"]) for d in expected], asked


def test_what_a_selection_holds_is_planned_each_time(pool: Pool, database_url: str) -> None:
    """A plan for any selection would compare each row with each of its files."""
    made = rows(pool, Random(1))
    with open_pool(database_url, max_size=1, limits=REQUEST) as asking:
        prepared = {}
        for only in (None, made.files[:1]):
            for _ in range(12):
                symbols.definitions(asking, made.index_id, only=only, limit=9)
                symbols.outline(asking, made.index_id, path=None, only=only, limit=9)
                symbols.references(asking, made.index_id, only=only, limit=9)
            with asking.connection() as connection:
                found = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
                prepared[only is None] = sum("f.id = ANY" in text for (text,) in found)
                connection.execute("DEALLOCATE ALL")
    assert prepared == {True: 3, False: 0}


@pytest.mark.parametrize("size", [2, 5, 100])
def test_uses_are_paged_by_path_and_position(pool: Pool, size: int) -> None:
    made = rows(pool, Random(size))
    queries: list[dict[str, Any]] = [{}, {"kind": "call"}, {"file": made.files[0]}, {"scope": "A"}, {"scope": "A/B"}]
    queries += [{"name": name} for name in (*NAMES, "A.run", "m.run", "n.f")] + [{"name": "run", "scope": "A"}]
    for asked in queries:
        name = asked.get("name")
        if name is not None and all(use["name"] != name for use in made.used):
            name = qualified(name)[1]
        expected = [
            use
            for use in made.used
            if name in {None, use["name"]}
            and asked.get("kind") in {None, use["kind"]}
            and asked.get("file") in {None, use["file_id"]}
            and ("scope" not in asked or f"{use['scope']}/".startswith(f"{asked['scope']}/"))
        ]
        expected.sort(key=lambda use: (made.files.index(use["file_id"]), use["line"], use["number"]))
        found: list[tuple[UUID, int]] = []
        after = None
        while page := symbols.references(pool, made.index_id, after=after, limit=size, **asked):
            found += [(use.file_id, use.number) for use in page]
            assert len(found) <= len(expected), asked
            last = page[-1]
            after = last.file_path, last.file_id_path, last.file_id, last.start_line, last.number
        assert found == [(use["file_id"], use["number"]) for use in expected], asked


def best(made: Rows, asked: str) -> list[tuple[UUID, int, int, str, str]]:
    """The definitions that a name means most likely, in their order."""
    scope, name = qualified(asked)
    known = [d for d in made.defined if d["name"].lower() == name.lower()]

    def rank(d: dict[str, Any]) -> tuple[bool, bool, bool]:
        in_scope = bool(scope) and is_in(d["scope"], scope)
        return not in_scope, d["name"] != name, d["kind"] in {"constant", "variable"}

    def calls(d: dict[str, Any]) -> list[str]:
        lines = range(d["start_line"], d["end_line"] + 1)
        of_file = (use for use in made.used if use["file_id"] == d["file_id"] and use["kind"] == "call")
        return [use["name"] for use in of_file if use["line"] in lines]

    first = min(map(rank, known), default=None)
    likeliest = [d for d in known if rank(d) == first]

    def length(d: dict[str, Any]) -> int:
        return int(d["end_line"]) - int(d["start_line"])

    thin = [d for d in likeliest if calls(d) == [d["name"]] and length(d) <= symbols._THIN_LINES]
    longest = max((length(d) for d in likeliest if d not in thin), default=-1)
    chosen = sorted(
        (d for d in likeliest if d not in thin or length(d) >= longest),
        key=lambda d: (made.files.index(d["file_id"]), d["number"]),
    )
    return [(d["file_id"], d["start_line"], d["end_line"], d["name"], d["kind"]) for d in chosen]


@pytest.mark.parametrize("seed", range(5))
def test_the_likeliest_definitions_of_names_take_turns(pool: Pool, seed: int) -> None:
    made = rows(pool, Random(seed))
    for names in (["run"], ["RUN"], ["A.run", "f"], ["B.run"], ["A.B.Run"], ["runner", "f", "run"], ["x.f", "none"]):
        turns = zip_longest(*(best(made, name) for name in names))
        expected = islice((d for turn in turns for d in turn if d is not None), 50)
        assert symbols.find_named(pool, made.index_id, names) == [*dict.fromkeys(expected)], names


@pytest.mark.parametrize("seed", range(5))
def test_a_definition_starts_in_the_live_chunks_with_its_first_line(pool: Pool, seed: int) -> None:
    made = rows(pool, Random(seed))

    def starting(names: list[str], scope: str | None) -> list[UUID]:
        return sorted(
            chunk["id"]
            for chunk in made.chunks
            if chunk["live"]
            and any(
                d["file_id"] == chunk["file_id"]
                and chunk["start_line"] <= d["start_line"] <= chunk["end_line"]
                and d["name"] in names
                and (scope == d["scope"] if scope is not None else d["name"] != chunk["symbol"])
                for d in made.defined
            )
        )

    for names in (["run"], ["f", "Run"], ["none"]):
        assert symbols.holding(pool, made.index_id, names) == starting(names, None)
    for scope in SCOPES:
        path = f"{scope}/run".removeprefix("/")
        assert symbols.holding_scope(pool, made.index_id, path) == starting(["run"], scope)


def test_what_a_file_has_goes_with_its_row(pool: Pool) -> None:
    _, (gone, *others), *_ = rows(pool, Random(1))
    tables = ("chunk", "symbol", "symbol_use")
    with pool.connection() as connection:
        connection.execute("DELETE FROM search_index_file WHERE id = %s", (gone,))
        for table in tables:
            left = connection.execute(f"SELECT DISTINCT file_id FROM {table}".encode()).fetchall()
            assert gone not in {file_id for (file_id,) in left}
            assert {(file_id,) for file_id in others} <= {*left}
