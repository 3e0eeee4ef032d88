"""Rows of chunks that a process keeps: they are always those that Postgres has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.contract.test_keywords import Index
from worker.state.pool import Pool
from worker.state.search import found_chunks, live_rows
from worker.state.search.live_rows import ROW_BYTES, LiveRows

CHANGES = {
    "text": "UPDATE chunk SET chunk_text = chunk_text || ' more' WHERE index_id = %s AND chunk_index = {n}",
    "line": "UPDATE chunk SET start_line = start_line + 1 WHERE index_id = %s AND chunk_index = {n}",
    "gone": "UPDATE chunk SET live = NOT live WHERE index_id = %s AND chunk_index = {n}",
    "deleted": "DELETE FROM chunk WHERE index_id = %s AND chunk_index = {n} AND {n} %% 3 = 0",
    "path": "UPDATE search_index_file SET path = path || '{n}' WHERE index_id = %s",
    "stale": "UPDATE search_index_file SET status = CASE status WHEN 'indexed' THEN 'pending' ELSE 'indexed' END "
    "WHERE index_id = %s",
    "node": "UPDATE search_index_file SET node_id = 'n' || index_id WHERE index_id = %s",
    "made": "INSERT INTO content_node (project_id, id, name, type, id_path, url) "
    "SELECT 'p', 'n' || id, 'n', 'text', 'n' || id, 'https://e.org/1' FROM search_index WHERE id = %s "
    "ON CONFLICT DO NOTHING",
    "url": "UPDATE content_node SET url = url || '{n}' WHERE id = 'n' || %s::text",
    "no node": "DELETE FROM content_node WHERE id = 'n' || %s::text",
    "nothing": "SELECT %s::text",
}


@pytest.mark.parametrize("kept", [0, 5, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_postgres_has(pool: Pool, kept: int, seed: int) -> None:
    chance, index = random.Random(seed), Index(pool, [f"text {number}" for number in range(20)])
    rows, ids = LiveRows(kept * (ROW_BYTES + 10)), [str(each.id) for each in index.placed]
    seen: dict[tuple[str, str], object] = {}
    state = "0"
    for step in range(60):
        if step == 30:
            kept //= 2
            rows.limit(kept * (ROW_BYTES + 10))
            assert len(rows._kept) <= kept
        change = chance.choice([*CHANGES, *["nothing"] * len(CHANGES)])
        state = state if change == "nothing" else str(step)
        index.run(CHANGES[change].format(n=chance.randrange(20)))
        asked = chance.sample(ids, chance.randrange(21))
        found = rows.get(pool, index.id, asked, chance.choice(["", state]))
        assert found.rows == found_chunks.hits(pool, index.id, asked)
        assert found.versions == found_chunks.versions(pool, index.id, asked)
        for id_, version in found.versions.items():
            assert seen.setdefault((id_, version), found.rows[id_]) == found.rows[id_]
        assert len(rows._kept) <= kept
        assert rows._bytes == sum(map(live_rows._size, (each.row for each in rows._kept.values())))


def test_metadata_counts_as_what_is_kept(pool: Pool) -> None:
    index = Index(pool, ["one"])
    (row,) = found_chunks.hits(pool, index.id, [str(index.placed[0].id)]).values()
    large = row._replace(metadata={"key": "x" * 10_000})
    assert live_rows._size(large) - live_rows._size(row) >= 10_000


def test_rows_that_are_kept_are_not_read_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    index, rows, read, newer_hits = (
        Index(pool, ["one", "two", "three", "four"]),
        LiveRows(),
        [],
        found_chunks.newer_hits,
    )

    def noted(*asked: Any) -> Any:
        versions, newer = newer_hits(*asked)
        read.append([*newer])
        return versions, newer

    monkeypatch.setattr(found_chunks, "newer_hits", noted)
    ids = [str(each.id) for each in index.placed]
    rows.get(pool, index.id, ids[:3])
    monkeypatch.setattr(found_chunks, "hits", None)
    rows.get(pool, index.id, ids[:3])
    assert not read
    rows.get(pool, index.id, ids)
    index.run(CHANGES["text"].format(n=1))
    rows.get(pool, index.id, ids)
    assert read == [[ids[3]], [ids[1]]]


def test_rows_are_looked_at_again_in_another_state_and_after_a_while(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, rows = Index(pool, ["one", "two", "three"]), LiveRows()
    ids = [str(each.id) for each in index.placed]
    rows.get(pool, index.id, ids[:2], "first")
    with monkeypatch.context() as patch:
        patch.setattr(found_chunks, "versions", None)
        patch.setattr(found_chunks, "newer_hits", None)
        assert set(rows.get(pool, index.id, ids, "first").rows) == set(ids)
        # the third was read now
        patch.setattr(found_chunks, "hits", None)
        assert set(rows.get(pool, index.id, ids, "first").versions) == set(ids)
    for state in ("second", "", ""):
        index.run(CHANGES["line"].format(n=1))
        assert rows.get(pool, index.id, ids, state).rows == found_chunks.hits(pool, index.id, ids)
    monkeypatch.setattr(live_rows, "AT_REST_SECONDS", 0)
    for _ in range(2):
        index.run(CHANGES["line"].format(n=1))
        assert rows.get(pool, index.id, ids, "third").rows == found_chunks.hits(pool, index.id, ids)


def test_rows_of_another_index_are_not_found(pool: Pool) -> None:
    index, rows = Index(pool, ["one"]), LiveRows()
    ids = [str(each.id) for each in index.placed]
    assert set(rows.get(pool, index.id, ids).rows) == set(ids)
    assert not rows.get(pool, Index(pool, ["two"]).id, ids).rows
