"""What an eviction takes from the embedding cache, compared with a plain model: several projects and embedders."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from random import Random
from typing import NamedTuple
from uuid import UUID, uuid4

import numpy as np
import pytest
from psycopg.types.json import Jsonb

from schemas.content.source import EmbedderProfile
from worker.state.index import embedding_cache
from worker.state.index.embedding_cache import VectorOwner
from worker.state.pool import Pool, open_pool

PROFILES = [EmbedderProfile(model="openai/m", dimensions=4), EmbedderProfile(model="openai/n", dimensions=4)]


class Entry(NamedTuple):
    """An entry of the cache."""

    project: str
    profile: int
    number: int

    @property
    def hash(self) -> str:
        return f"sha256:{self.number:064x}"

    @property
    def owner(self) -> VectorOwner:
        return VectorOwner(self.project, PROFILES[self.profile])


ENTRIES = [Entry(*row) for row in product(("one", "two"), (0, 1), range(6))]


@pytest.fixture
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url) as opened:
        yield opened
        with opened.connection() as connection:
            for table in ("search_tool", "search_index", "embedding_cache", "embedding_cache_pass"):
                connection.execute(f"DELETE FROM {table}".encode())


def add_index(pool: Pool, owner: VectorOwner, *, age: int = 0) -> UUID:
    """An index with a tool and a file."""
    id_, settings = uuid4(), Jsonb({"embedder": owner.profile.model_dump()})
    index = (
        "INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace,"
        " created_at) VALUES (%(id)s, %(project)s, %(id)s::text, '{}', %(settings)s, 'lancedb', 'store', %(id)s::text,"
        " now() - make_interval(secs => %(age)s))"
    )
    tool = (
        "INSERT INTO search_tool (id, project_id, name, index_id, source, config)"
        " VALUES (%(id)s, %(project)s, 't', %(id)s, '{}', '{}')"
    )
    file = (
        "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version)"
        " VALUES (%(id)s, %(id)s, '', '', '', 0, %(id)s, '', '')"
    )
    with pool.connection() as connection:
        for statement in (index, tool, file):
            values = {"id": id_, "project": owner.project_id, "settings": settings, "age": age}
            connection.execute(statement.encode(), values)
    return id_


def add_chunk(pool: Pool, index_id: UUID, hash_: str, *, live: bool = True) -> None:
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO chunk (id, index_id, file_id, live, chunk_index, chunk_text, context, lead, trail,"
            " content_hash, tokens_estimate, start_line, end_line, start_char, end_char)"
            " VALUES (gen_random_uuid(), %s, %s, %s, 0, '', '', '', '', %s, 1, 1, 1, 0, 0)",
            (index_id, index_id, live, hash_),
        )


def add_entry(pool: Pool, entry: Entry, age: int) -> None:
    """Entries of one age have the same time."""
    embedding_cache.insert(pool, entry.owner, {entry.hash: np.ones(4, dtype=np.float32)})
    where = "project_id = %(project_id)s AND embedder = %(embedder)s AND text_hash = %(hash)s"
    with pool.connection() as connection:
        values = {**entry.owner.values, "hash": bytes.fromhex(entry.hash[7:]), "age": timedelta(days=age)}
        connection.execute(
            f"UPDATE embedding_cache SET used_at = date_trunc('hour', now()) - %(age)s WHERE {where}".encode(), values
        )


def entries(pool: Pool) -> set[Entry]:
    names = {(entry.owner.values["embedder"], bytes.fromhex(entry.hash[7:])): entry for entry in ENTRIES}
    with pool.connection() as connection:
        rows = connection.execute("SELECT project_id, embedder, text_hash FROM embedding_cache").fetchall()
    return {names[embedder, hash_]._replace(project=project) for project, embedder, hash_ in rows}


@pytest.mark.parametrize("seed", range(10))
def test_a_pass_in_many_steps_keeps_what_is_live_and_the_newest_of_the_rest(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also if a worker dies between two steps, and if entries have the same time."""
    random = Random(seed)
    monkeypatch.setattr(embedding_cache, "EVICTION_ROWS", random.randint(1, 9))
    indexes = {entry[:2]: add_index(pool, entry.owner) for entry in ENTRIES}
    ages = {entry: random.choice([3, 4, random.randint(5, 30)]) for entry in random.sample(ENTRIES, 20)}
    for entry, age in ages.items():
        add_entry(pool, entry, age)
    live = random.sample(ENTRIES, random.randint(0, 10))
    for entry in ENTRIES:
        add_chunk(pool, indexes[entry[:2]], entry.hash, live=entry in live)
    spare, keep = [entry for entry in ages if entry not in live], random.randint(0, 19)
    for _ in range(random.randint(0, 4)):
        with pool.connection() as connection:
            embedding_cache._step(connection, keep)
    evicted, more = embedding_cache.evict(pool, spare=keep, maximum=1000, seconds=60)
    left = entries(pool)
    assert not more
    assert evicted <= len(ages) - len(left)
    assert {entry for entry in ages if entry in live} <= left
    kept = sorted(ages[entry] for entry in spare if entry in left)
    assert len(kept) == min(keep, len(spare))
    gone = [ages[entry] for entry in spare if entry not in left]
    assert not gone or not kept or min(gone) >= kept[-1]
    assert embedding_cache.evict(pool, spare=keep, maximum=1000, seconds=60) == (0, False)
    assert entries(pool) == left


@pytest.mark.parametrize("maximum", [0, 3, 7])
@pytest.mark.parametrize("rows", [2, 100])
def test_the_hard_bound_keeps_the_newest_whether_live_or_not(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, maximum: int, rows: int
) -> None:
    monkeypatch.setattr(embedding_cache, "EVICTION_ROWS", rows)
    some = ENTRIES[::4]
    indexes = {entry[:2]: add_index(pool, entry.owner) for entry in ENTRIES}
    for age, entry in enumerate(some):
        add_entry(pool, entry, age)
        add_chunk(pool, indexes[entry[:2]], entry.hash)
    assert embedding_cache.evict(pool, spare=0, maximum=maximum, seconds=60) == (max(0, len(some) - maximum), False)
    assert entries(pool) == set(some[:maximum])


@pytest.mark.parametrize(("newer", "profile", "project", "is_kept"), [
    (49, 0, "one", True),
    (50, 0, "one", False),
    (50, 1, "one", True),
    (50, 0, "two", True),
])  # fmt: skip
def test_a_vector_is_kept_for_the_newest_indexes_of_its_project_and_embedder(
    pool: Pool, newer: int, profile: int, project: str, is_kept: bool
) -> None:
    """If there are more than can be asked in a moment, the newest fifty count."""
    entry = Entry("one", 0, 1)
    add_chunk(pool, add_index(pool, entry.owner, age=100), entry.hash)
    for age in range(newer):
        add_index(pool, VectorOwner(project, PROFILES[profile]), age=age)
    add_entry(pool, entry, 1)
    # so that both projects are asked about
    other = Entry("two", 1, 2)
    add_chunk(pool, add_index(pool, other.owner, age=100), other.hash)
    add_entry(pool, other, 1)
    embedding_cache.evict(pool, spare=0, maximum=1000, seconds=60)
    assert (entry in entries(pool)) == is_kept
