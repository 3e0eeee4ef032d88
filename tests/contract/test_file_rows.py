"""Which files have text, and which are unfinished: random rows of two indexes, compared with a model of them."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.rows import dict_row

from tests.contract.test_keywords import Index
from worker.state.pool import Pool
from worker.state.search import file_texts, freshness
from worker.state.search.freshness import FileCounts

#: Values of columns; some paths begin as others do.
FILE: dict[str, list[Any]] = {
    "status": ["pending", "indexing", "indexed", "skipped", "failed", "removed"],
    "work": ["read", "path", "remove"],
    "live_chunks": [0, 1],
    "type": ["markdown", "python"],
}
FOLDERS = ["", "a/", "a-b/", "ab/", "a/b/"]
UNFINISHED = {"pending", "indexing", "failed"}


def rows(pool: Pool, random: Random, number: int = 60) -> tuple[UUID, list[dict[str, Any]]]:
    """The first of two indexes, and the rows of its files."""
    indexes: list[UUID] = []
    with pool.connection() as connection:
        for each in range(number):
            path = f"{random.choice(FOLDERS)}{each}.md"
            file = Index(pool, ["one", "two"], path=path)
            indexes = [*indexes, file.id][:2]
            values = {name: random.choice(choice) for name, choice in FILE.items()}
            values["key"] = path.encode()
            columns = "".join(f", {name} = %({name})s" for name in values)
            values |= {"index": indexes[each % 3 % len(indexes)], "file": file.file_id}
            change = f"UPDATE search_index_file SET index_id = %(index)s{columns} WHERE id = %(file)s"
            connection.execute(change.encode(), values)
        query = "SELECT * FROM search_index_file WHERE index_id = %s"
        found = connection.cursor(row_factory=dict_row).execute(query, (indexes[0],)).fetchall()
    return indexes[0], found


def is_below(path: str, folder: str | None) -> bool:
    return folder is None or f"{path}/".startswith(f"{folder}/")


def by_folder(row: dict[str, Any]) -> list[str]:
    names: list[str] = row["path"].split("/")
    return names


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_those_of_files_that_are_not_removed(pool: Pool, seed: int) -> None:
    index_id, files = rows(pool, Random(seed))
    for below in (None, "a", "a/b", "none", files[0]["path"]):
        for excluded in (None, ["markdown"], []):
            expected = [
                file
                for file in files
                if file["live_chunks"] and file["status"] != "removed" and is_below(file["path"], below)
                if file["type"] not in (excluded or ())
            ]
            found = list(
                file_texts.read_stored(pool, index_id, excluded_types=excluded, below=below, is_wanted=lambda _: True)
            )
            assert [file.path for file, _ in found] == [file["path"] for file in sorted(expected, key=by_folder)]
            assert all({piece.chunk_text for piece in pieces} == {"one", "two"} for _, pieces in found)


@pytest.mark.parametrize("page", [3, 1000])
def test_files_are_unfinished_until_their_outcome_unless_they_are_to_go(
    pool: Pool, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_texts, "_PAGE_ROWS", page)
    index_id, files = rows(pool, Random(page))
    for below in (None, "a", "a/b", files[0]["path"]):
        expected = {
            file["path"]: file["work"] == "read"
            for file in files
            if file["status"] in UNFINISHED and file["work"] != "remove" and is_below(file["path"], below)
        }
        found = list(file_texts.read_unfinished(pool, index_id, below=below))
        assert len(found) == len(expected)
        assert {entry.path: file.is_behind for entry, file in found} == expected


def test_listed_files_are_behind_while_they_wait_to_be_read(pool: Pool) -> None:
    _, files = rows(pool, Random(1))
    expected = {
        file["id"]: (file["live_chunks"] > 0, file["status"] in UNFINISHED and file["work"] == "read")
        for file in files
        if file["status"] != "removed"
    }
    found = file_texts.read_listed(pool, [uuid4(), *(file["id"] for file in files)])
    assert {id_: (file.has_text, file.is_behind) for id_, file in found.items()} == expected


@pytest.mark.parametrize("unlisted", [[], [b"a/"], [b"ab/", b"a/b/"]])
def test_a_listing_should_show_the_files_that_are_known_and_not_going(pool: Pool, unlisted: list[bytes]) -> None:
    index_id, files = rows(pool, Random(1))
    known = [
        file
        for file in files
        if file["status"] != "removed" and not any(file["path"].encode().startswith(prefix) for prefix in unlisted)
    ]
    going = [file for file in known if file["work"] == "remove" and file["status"] in {"pending", "indexing"}]
    assert freshness.count_rows(pool, index_id, unlisted) == FileCounts(len(known), len(going))
