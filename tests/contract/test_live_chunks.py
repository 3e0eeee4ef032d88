"""Which chunks are live and pass the filters of a query: random rows of two indexes, compared with a model of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from tests.contract.test_keywords import FILTERS, Index
from worker.state.pool import Pool
from worker.state.queries import load
from worker.state.search import found_chunks, snippets

#: Values of columns; some begin as others do.
PLACES = ["", "a", "a/b", "ab", "a_b/c"]
CHUNK: dict[str, list[Any]] = {
    "language": [None, "python", "go"],
    "symbol": [None, "f", "g"],
    "node_type": [None, "function", "class"],
    "scope": [None, *PLACES],
    "json_pointer": [None, *(f"/{place}" for place in PLACES)],
    "level": [0, 1],
    "chunk_text": ["nothing of it", "The  quick\nBrown fox", "a quick brown_fox"],
    "chunk_index": [0, 1, 2],
    "start_char": [0, 5],
    "end_char": [5, 9],
    "start_line": [1, 3],
    "end_line": [3, 5],
    "live": [True, True, False],
}
FILE: dict[str, list[Any]] = {
    "live_embedded": [False, False, True],
    "node_id": [None, "n1", "n2"],
    "type": ["markdown", "python", None],
    "path": ["a.md", "b.py", "c.md.py", "amd"],
    "id_path": [f"/top/{place}" for place in PLACES],
}


class Pair(NamedTuple):
    """The rows of two indexes, of which a query is about the first."""

    pool: Pool
    index_id: UUID
    chunks: list[dict[str, Any]]

    @property
    def ids(self) -> list[str]:
        return [str(chunk["id"]) for chunk in self.chunks]

    @property
    def live(self) -> list[dict[str, Any]]:
        return [chunk for chunk in self.chunks if chunk["live"] and chunk["index_id"] == self.index_id]


def pair(pool: Pool, random: Random) -> Pair:
    files = [Index(pool, [f"text {number}" for number in range(4)]) for _ in range(10)]
    first, second = files[0].id, files[1].id
    with pool.connection() as connection:
        for number, file in enumerate(files):
            index_id = first if number % 3 else second
            values = {name: random.choice(choice) for name, choice in FILE.items()}
            columns = "".join(f", {name} = %({name})s" for name in values)
            change = f"UPDATE search_index_file SET index_id = %(index)s{columns} WHERE id = %(file)s"
            connection.execute(change.encode(), {**values, "index": index_id, "file": file.file_id})
            for chunk in file.placed:
                values = {name: random.choice(choice) for name, choice in CHUNK.items()}
                columns = "".join(f", {name} = %({name})s" for name in values)
                change = f"UPDATE chunk SET index_id = %(index)s{columns} WHERE id = %(chunk)s"
                connection.execute(change.encode(), {**values, "index": index_id, "chunk": chunk.id})
        rows = connection.cursor(row_factory=dict_row).execute(
            "SELECT c.*, f.path, f.type, f.id_path, f.live_embedded, coalesce(f.node_id, f.id::text) AS node"
            " FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.index_id IN (%s, %s) ORDER BY c.id",
            (first, second),
        )
        return Pair(pool, first, rows.fetchall())


def is_below(place: str | None, asked: str) -> bool:
    return place is not None and (place == asked or place.startswith(f"{asked}/"))


def passes(chunk: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a chunk passes all filters that are asked for."""
    tests: dict[str, Callable[[Any], bool]] = {
        "file_node_ids": lambda wanted: chunk["node"] in wanted,
        "id_paths": lambda wanted: any(is_below(chunk["id_path"], path) for path in wanted),
        "folders": lambda wanted: any(chunk["id_path"].startswith(path) for path in wanted),
        "endings": lambda wanted: any(chunk["path"].endswith(ending.removeprefix("%")) for ending in wanted),
        "types": lambda wanted: chunk["type"] in wanted,
        "languages": lambda wanted: chunk["language"] in wanted,
        "symbols": lambda wanted: chunk["symbol"] in wanted or chunk["id"] in (asked.get("symbol_ids") or ()),
        "node_types": lambda wanted: chunk["node_type"] in wanted,
        "scope": lambda wanted: is_below(chunk["scope"], wanted) or chunk["id"] in (asked.get("scope_ids") or ()),
        "json_pointer": lambda wanted: is_below(chunk["json_pointer"], wanted),
        "level": lambda wanted: chunk["level"] == wanted,
    }
    return all(test(asked[name]) for name, test in tests.items() if asked.get(name) is not None)


def filters(made: Pair, random: Random) -> dict[str, Any]:
    """Some filters, as a query has them."""
    id_paths = random.sample(FILE["id_path"], 2)
    possible = {
        "file_node_ids": ["n1", str(random.choice(made.chunks)["file_id"])],
        "id_paths": id_paths,
        "folders": [f"{random.choice(FILE['id_path'])}/"],
        "endings": [random.choice(["%.md", "%.py"])],
        "types": random.sample(["markdown", "python"], 1),
        "languages": random.sample(["python", "go"], random.randint(1, 2)),
        "symbols": ["f"],
        "node_types": ["class"],
        "scope": random.choice(PLACES),
        "json_pointer": f"/{random.choice(PLACES)}",
        "level": random.choice([0, 1]),
    }
    asked: dict[str, Any] = dict.fromkeys(FILTERS)
    for name in random.sample([*possible], random.choice([1, 1, 2])):
        asked[name] = possible[name]
    if asked["id_paths"] is not None:
        asked["below"] = [f"{path}/" for path in id_paths]
    for name in ("symbol", "scope"):
        if random.random() < 0.5:
            asked[f"{name}_ids"] = [chunk["id"] for chunk in random.sample(made.chunks, 3)]
    return asked


@pytest.mark.parametrize("seed", range(3))
def test_the_chunks_that_pass_are_those_that_all_filters_let_pass(pool: Pool, seed: int) -> None:
    random = Random(seed)
    made = pair(pool, random)
    numbers = set()
    for _ in range(150):
        asked = filters(made, random)
        expected = {str(chunk["id"]) for chunk in made.chunks if passes(chunk, asked)}
        assert {*found_chunks.passing(pool, made.ids, asked)} == expected, asked
        any_live = any(passes(chunk, asked) for chunk in made.live)
        assert found_chunks.any_passes(pool, {**asked, "index_id": made.index_id}) == any_live, asked
        numbers.add(len(expected))
    assert len(numbers) > 5


@pytest.mark.parametrize("seed", range(3))
def test_files_without_vectors_are_found_whole_where_they_fit(pool: Pool, seed: int) -> None:
    random = Random(seed)
    made = pair(pool, random)
    places = {c["file_id"]: (c["path"], c["id_path"]) for c in made.live if not c["live_embedded"]}
    files = sorted(places, key=places.__getitem__)
    found_some = 0
    for characters in (5, 6, 9, 10, 100) * 5:
        asked = random.choice([filters(made, random), dict.fromkeys(FILTERS)])
        only, without = random.choice([None, files[::2]]), random.choice([[], files[:2]])
        expected = []
        for file_id in files:
            live = [chunk for chunk in made.live if chunk["file_id"] == file_id]
            length = max(chunk["end_char"] for chunk in live) + max(len(chunk["trail"]) for chunk in live)
            chosen = file_id not in without and (only is None or file_id in only)
            if chosen and length <= characters and any(passes(chunk, asked) for chunk in live):
                expected.append((file_id, length))
        values = {**asked, "index_id": made.index_id, "characters": characters, "only": only, "without": without}
        for limit in (1, 100):
            assert found_chunks.find_unembedded(pool, {**values, "limit": limit}) == expected[:limit]
        found_some += len(expected) > 1
    assert found_some > 3


@pytest.mark.parametrize("query", ["hits", "newer_hits"])
def test_a_row_of_a_hit_has_the_columns_of_its_query(pool: Pool, query: str) -> None:
    values: dict[str, Any] = {"ids": [], "known": [], "index_id": UUID(int=0)}
    with pool.connection() as connection:
        columns = connection.execute(load("search/found_chunks")[query], values).description or ()
    assert (*(column.name for column in columns), "read_text") == found_chunks.HitRow._fields


@pytest.mark.parametrize("seed", range(3))
def test_only_live_chunks_of_the_index_are_shown(pool: Pool, seed: int) -> None:
    made = pair(pool, Random(seed))
    live = {str(chunk["id"]): chunk["file_id"] for chunk in made.live}
    assert 0 < len(live) < len(made.chunks)
    hits = found_chunks.hits(pool, made.index_id, made.ids)
    assert {id_: hit.file_id for id_, hit in hits.items()} == live
    assert found_chunks.file_ids(pool, made.index_id, made.ids) == live
    assert found_chunks.versions(pool, made.index_id, made.ids).keys() == live.keys()
    versions, newer = found_chunks.newer_hits(pool, made.index_id, made.ids, [""] * len(made.ids))
    assert versions.keys() == newer.keys() == live.keys()
    with_phrase = {str(chunk["id"]) for chunk in made.live if "quick\nBrown fox" in chunk["chunk_text"]}
    assert found_chunks.with_phrase(pool, made.index_id, made.ids, "QUICK brown   fox") == with_phrase


@pytest.mark.parametrize(("type_", "found"), [("json", {0, 1}), ("text", {0}), ("pdf", {0})])
def test_a_phrase_is_found_as_it_is_read(pool: Pool, type_: str, found: set[int]) -> None:
    index = Index(pool, ["Schr\u00f6der\nWeg 3", '"Schr\\u00f6der\\nWeg 3"', "Schroeder Weg"])
    with pool.connection() as connection:
        connection.execute("UPDATE search_index_file SET type = %s WHERE id = %s", (type_, index.file_id))
    ids = [str(placed.id) for placed in index.placed]
    holding = found_chunks.with_phrase(pool, index.id, ids, "schröder  weg")
    assert holding == {ids[number] for number in found}
    rows = found_chunks.hits(pool, index.id, ids)
    assert [rows[id_].read_text is None for id_ in ids] == [True, type_ == "pdf", True]


@pytest.mark.parametrize("seed", range(3))
def test_a_line_is_in_the_live_chunks_that_hold_it(pool: Pool, seed: int) -> None:
    made = pair(pool, Random(seed))
    for line in range(7):
        places = [(file_id, line) for file_id in {chunk["file_id"] for chunk in made.chunks}]
        holding = [c for c in made.chunks if c["live"] and c["start_line"] <= line <= c["end_line"]]
        assert {*found_chunks.containing_lines(pool, places)} == {str(chunk["id"]) for chunk in holding}


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_file_is_paged_by_its_live_chunks_and_its_text_is_of_the_lowest_level(pool: Pool, size: int) -> None:
    made = pair(pool, Random(size))
    for file_id in {chunk["file_id"] for chunk in made.chunks}:
        live = [chunk for chunk in made.chunks if chunk["file_id"] == file_id and chunk["live"]]
        paged: list[UUID] = []
        after = None
        while rows := snippets.page(pool, file_id, after=after, limit=size):
            assert len(rows) <= size
            paged += [row.chunk_id for row in rows]
            assert len(paged) <= len(live)
            after = rows[-1].chunk_index, rows[-1].chunk_id
        assert paged == [chunk["id"] for chunk in sorted(live, key=lambda chunk: (chunk["chunk_index"], chunk["id"]))]
        texts = [(row.start_char, row.end_char, row.chunk_text) for row in snippets.text(pool, file_id)]
        lowest = [(c["start_char"], c["end_char"], c["chunk_text"]) for c in live if c["level"] == 0]
        assert sorted(texts) == sorted(lowest)
        assert [start for start, _, _ in texts] == sorted(start for start, _, _ in lowest)
