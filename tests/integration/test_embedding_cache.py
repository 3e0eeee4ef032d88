"""Nothing is paid for twice: not moved text, not text that comes back, not what a killed worker already received."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
import pytest

from api.stack import programs
from api.stack.processes import running as process
from schemas.content.source import EmbedderProfile
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import (
    PROJECT,
    NewService,
    Service,
    eventually,
    new_database,
    with_clock,
    with_one_worker,
)
from worker.state.index import embedding_cache
from worker.state.index.embedding_cache import VectorOwner
from worker.state.pool import Pool, open_pool

#: Older than the age at which stamps are trusted.
LONG_AGO = 1_600_000_000
WORDS = ("apples", "birds", "cars")
OWNER = VectorOwner(PROJECT, EmbedderProfile(model="openai/m", dimensions=4))


def text(word: str) -> str:
    return f"# {word}\n\nThis section is about {word} and nothing else.\n"


def write(folder: Path, *words: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for word in words:
        (folder / f"{word}.md").write_text(text(word))
        os.utime(folder / f"{word}.md", (LONG_AGO, LONG_AGO))
    return folder


@pytest.fixture(scope="module")
def here(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    """A service with one worker, which embeds one text in each request, with four requests at once."""
    env = {**provider.env, "EMBEDDING_BATCH_SIZE": "1", "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(with_one_worker, **env) as started:
        yield started


@pytest.fixture
def project() -> str:
    return f"project-{uuid4().hex[:8]}"


def indexed(here: Service, provider: EmbeddingsFake, folder: Path, project: str, **config: object) -> tuple[str, int]:
    """Create another tool over a folder. Returns it, and the texts that it cost."""
    paid = provider.audit.texts.total()
    probes = provider.audit.times("word") + provider.audit.times("warm")
    tool = here.local_tool(folder, project=project, config=config)
    status = here.wait(tool)
    paid = provider.audit.texts.total() - paid
    paid -= provider.audit.times("word") + provider.audit.times("warm") - probes
    assert status["embedded_chunks"] == paid
    assert (status["tokens"] > 0) == (paid > 0)
    return tool, paid


def found(here: Service, tool: str) -> list[str]:
    """The files of a tool by vector: each has exactly one."""
    return sorted(hit["file_path"] for hit in here.query(tool, "section", mode="vector", top_k=100))


def test_what_moved_or_was_copied_costs_nothing(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    assert indexed(here, provider, folder, project)[1] == 3
    (folder / "apples.md").rename(folder / "renamed.md")
    (folder / "sub").mkdir()
    (folder / "birds.md").rename(folder / "sub" / "birds.md")
    (folder / "copy.md").write_text(text("cars"))
    tool, paid = indexed(here, provider, folder, project)
    assert paid == 0
    assert found(here, tool) == ["cars.md", "copy.md", "renamed.md", "sub/birds.md"]
    assert here.status(tool)["reused_chunks"] == 3


def test_another_tool_over_the_same_files_costs_nothing(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    first, _ = indexed(here, provider, folder, project)
    second, paid = indexed(here, provider, folder, project, include=["apples.md", "cars.md"])
    assert paid == 0
    assert found(here, second) == ["apples.md", "cars.md"]
    assert here.status(second)["namespace"] != here.status(first)["namespace"]
    assert here.status(second)["reused_chunks"] == 2


def test_what_is_not_cached_any_more_is_read_back_from_where_it_is_live(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    indexed(here, provider, folder, project)
    here.rows("DELETE FROM embedding_cache RETURNING 1")
    tool, paid = indexed(here, provider, folder, project, include=["apples.md", "cars.md"])
    assert paid == 0
    hit = here.query(tool, text("cars"), mode="vector")[0]
    assert (hit["file_path"], round(hit["distance"], 4)) == ("cars.md", 0)
    (folder / "copy.md").write_text(text("birds"))
    assert indexed(here, provider, folder, project)[1] == 0


#: The first process to keep a vector is told that the server shuts down. A sequence counts it, even after a rollback.
SHUTDOWN = """
CREATE SEQUENCE kept;
CREATE FUNCTION shut_down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.kept') = 1 THEN RAISE EXCEPTION 'terminating connection' USING ERRCODE = '57P01'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER shut_down BEFORE INSERT ON embedding_cache FOR EACH ROW EXECUTE FUNCTION shut_down();
"""


def test_a_postgres_that_restarts_as_a_vector_arrives_costs_nothing(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    with psycopg.connect(here.database_url, autocommit=True) as connection:
        connection.execute(SHUTDOWN.encode())
        assert indexed(here, provider, folder, project)[1] == 3
        assert connection.execute("SELECT last_value > 3 FROM kept").fetchone() == (True,)
        connection.execute("DROP FUNCTION shut_down CASCADE; DROP SEQUENCE kept")


def test_a_text_that_goes_and_comes_back_costs_nothing(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    indexed(here, provider, folder, project)
    (folder / "cars.md").unlink()
    indexed(here, provider, folder, project)
    write(folder, "cars")
    tool, paid = indexed(here, provider, folder, project)
    assert paid == 0
    assert found(here, tool) == ["apples.md", "birds.md", "cars.md"]


def test_equal_texts_are_paid_for_once(here: Service, provider: EmbeddingsFake, root: Path, project: str) -> None:
    folder = write(root / project, "apples")
    for number in range(5):
        (folder / f"{number}.md").write_text(text("apples"))
    tool, paid = indexed(here, provider, folder, project)
    assert paid == 1
    status = here.status(tool)
    assert (status["embedded_chunks"], status["reused_chunks"], status["total_chunks"]) == (1, 5, 6)


def test_no_project_gains_from_what_another_paid_for(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *WORDS)
    assert indexed(here, provider, folder, project)[1] == 3
    assert indexed(here, provider, folder, f"{project}-other")[1] == 3


def test_a_killed_worker_costs_the_requests_it_had_in_flight(
    here: Service, provider: EmbeddingsFake, root: Path, project: str
) -> None:
    folder = write(root / project, *(f"word{number}" for number in range(60)))
    provider.reset()
    provider.delay = 0.1
    tool = here.local_tool(folder, project=project)
    eventually(lambda: len(provider.audit.texts) > 12, 30, here.logs)
    here.processes["worker-fast"].signal(SIGKILL)
    provider.delay = 0
    eventually(lambda: provider.audit.in_flight == 0, 10)
    with process(with_clock(programs.fast_worker(here.env), here.home), here.home):
        status = here.wait(tool)
    assert (status["indexed_files"], status["total_chunks"]) == (60, 60)
    twice = [name for name, times in provider.audit.texts.items() if times > 1]
    assert len(twice) <= 4
    assert provider.audit.texts.total() - len(provider.audit.texts) == len(twice)


@pytest.fixture
def pool(postgres_url: str, template_url: str) -> Iterator[Pool]:
    with new_database(postgres_url, template_url) as url, open_pool(url) as opened:
        with opened.connection() as connection:
            connection.execute("INSERT INTO search_index (id, project_id, identity, source, settings, vector_store,"
                " keyword_index, namespace) VALUES (gen_random_uuid(), %s, 'i', '{}', '{}', 'lancedb', 'store', 'n')",
                (PROJECT,))  # fmt: skip
            connection.execute(
                "INSERT INTO search_tool (id, project_id, name, index_id, source, config)"
                " SELECT gen_random_uuid(), project_id, 't', id, '{}', '{}' FROM search_index"
            )
        yield opened


def vectors(*numbers: int) -> dict[str, embedding_cache.Vector]:
    return {f"sha256:{number:064x}": np.full(4, number, dtype=np.float32) for number in numbers}


def held(pool: Pool, owner: VectorOwner = OWNER) -> list[int]:
    return sorted(int(vector[0]) for vector in embedding_cache.lookup(pool, owner, vectors(*range(20))).values())


def age(pool: Pool, number: int, days: int) -> None:
    with pool.connection() as connection:
        connection.execute(
            "UPDATE embedding_cache SET used_at = now() - %s WHERE text_hash = %s",
            (timedelta(days=days), bytes.fromhex(f"{number:064x}")),
        )


def make_live(pool: Pool, *numbers: int) -> None:
    """Number of chunks of these texts in the project's index."""
    with pool.connection() as connection:
        connection.execute(
            "UPDATE search_index SET settings = %s",
            ('{"embedder": {"model": "openai/m", "dimensions": 4, "precision": "float32"}}',),
        )
        connection.execute(
            "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version)"
            " SELECT id, id, '', '', '', 0, id, '', '' FROM search_index"
        )
        for hash_ in vectors(*numbers):
            connection.execute(
                "INSERT INTO chunk (id, index_id, file_id, live, chunk_index, chunk_text, context, lead, trail,"
                " content_hash, tokens_estimate, start_line, end_line, start_char, end_char)"
                " SELECT gen_random_uuid(), id, id, true, 0, '', '', '', '', %s, 1, 1, 1, 0, 0 FROM search_index",
                (hash_,),
            )


def evict(pool: Pool, *, spare: int = 1000, maximum: int = 1000) -> int:
    evicted, more = embedding_cache.evict(pool, spare=spare, maximum=maximum, seconds=60)
    assert not more
    return evicted


def test_vectors_come_back_as_they_were_put(pool: Pool) -> None:
    vector = np.random.default_rng(1).normal(size=4).astype(np.float32)
    embedding_cache.insert(pool, OWNER, {f"sha256:{7:064x}": vector})
    embedding_cache.insert(pool, OWNER, {f"sha256:{7:064x}": vector + 1})
    (back,) = embedding_cache.lookup(pool, OWNER, vectors(7, 8)).values()
    assert back.tobytes() == vector.tobytes()


def test_vectors_belong_to_a_project_and_an_embedder(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1))
    assert held(pool) == [1]
    assert held(pool, VectorOwner("another", OWNER.profile)) == []
    for change in ({"model": "openai/n"}, {"dimensions": 5}, {"precision": "int8"}):
        assert held(pool, VectorOwner(PROJECT, OWNER.profile.model_copy(update=change))) == []


def test_nothing_is_kept_for_a_project_that_is_gone(pool: Pool) -> None:
    gone = VectorOwner("gone", OWNER.profile)
    embedding_cache.insert(pool, gone, vectors(1))
    assert held(pool, gone) == []


def test_spare_vectors_go_the_oldest_used_first_and_live_ones_stay(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(*range(1, 9)))
    for number in range(1, 9):
        age(pool, number, 10 + number)
    make_live(pool, 7, 8)
    assert evict(pool, spare=6) == 0
    assert evict(pool, spare=4) == 2
    assert evict(pool, spare=4) == 0
    assert held(pool) == [1, 2, 3, 4, 7, 8]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunk SET live = false",
        # the other text is the other project's, so that both are looked at
        """WITH moved AS (UPDATE search_index SET project_id = 'another')
        UPDATE embedding_cache SET project_id = 'another' WHERE text_hash = decode(repeat('0', 63) || '2', 'hex')""",
        "UPDATE search_index SET deleted_at = now()",
        """UPDATE search_index SET settings = jsonb_set(settings, '{embedder,dimensions}', '8')""",
    ],
)
def test_only_a_live_text_of_the_same_project_and_embedder_keeps_a_vector(pool: Pool, change: str) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2))
    make_live(pool, 1)
    assert evict(pool, spare=1) == 0
    with pool.connection() as connection:
        connection.execute(change.encode())
    assert evict(pool, spare=1) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunk SET live = false",
        "UPDATE chunk SET embedded = false",
        "UPDATE chunk SET lost = true",
        "UPDATE search_index SET project_id = 'another'",
        "UPDATE search_index SET vector_store = 'turbopuffer'",
        "UPDATE search_index SET deleted_at = now()",
        """UPDATE search_index SET settings = jsonb_set(settings, '{embedder,dimensions}', '8')""",
    ],
)
def test_a_vector_is_read_back_only_from_where_it_is_and_may_be_read(pool: Pool, change: str) -> None:
    make_live(pool, 1)

    def found() -> list[str]:
        return [hash_ for hash_, *_ in embedding_cache.live_elsewhere(pool, OWNER, "lancedb", vectors(1, 2))]

    assert found() == [*vectors(1)]
    with pool.connection() as connection:
        connection.execute(change.encode())
    assert found() == []


def test_an_entry_that_is_used_as_it_is_chosen_stays(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2))
    for number in (1, 2):
        age(pool, number, 10 - number)

    with pool.connection() as connection:
        assert embedding_cache._step(connection, 1) == (0, False)
        chosen = connection.execute

        def execute(query: Any, *given: Any, **options: Any) -> Any:
            if query is embedding_cache._SQL["evict"]:
                # another worker, just before the entry is deleted
                embedding_cache.lookup(pool, OWNER, vectors(1))
            return chosen(query, *given, **options)

        monkeypatch.setattr(connection, "execute", execute)
        embedding_cache._step(connection, 1)
    assert held(pool) == [1, 2]


def test_a_count_is_forgotten_once_nothing_is_too_much(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3, 4))
    with pool.connection() as connection:
        assert embedding_cache._step(connection, 1) == (0, False)
    assert evict(pool, spare=4) == 0
    embedding_cache.insert(pool, OWNER, vectors(5))
    assert evict(pool, spare=4) == 1


def test_above_the_hard_bound_live_ones_go_too(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(*range(1, 7)))
    for number in range(1, 7):
        age(pool, number, 10 + number)
    make_live(pool, 5, 6)
    assert evict(pool, maximum=5) == 1
    assert held(pool) == [1, 2, 3, 4, 5]


def test_what_one_limit_takes_away_counts_for_the_other(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3))
    make_live(pool, 1)
    assert evict(pool, spare=1, maximum=2) == 1
    assert len(held(pool)) == 2


def test_entries_used_during_a_pass_stay_and_are_not_counted_twice(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "EVICTION_ROWS", 2)
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3, 4))
    for number in range(1, 5):
        age(pool, number, 10 - number)
    with pool.connection() as connection:
        embedding_cache._step(connection, 3)
    embedding_cache.lookup(pool, OWNER, vectors(1, 2))
    assert evict(pool, spare=3) == 1
    assert held(pool) == [1, 2, 4]


def test_an_eviction_out_of_time_says_that_there_is_more(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3))
    assert embedding_cache.evict(pool, spare=1, maximum=1, seconds=0) == (0, True)
    assert embedding_cache.evict(pool, spare=1, maximum=3, seconds=0) == (0, True)
    assert embedding_cache.evict(pool, spare=3, maximum=1, seconds=0) == (0, True)
    assert embedding_cache.evict(pool, spare=3, maximum=3, seconds=0) == (0, False)


def test_an_eviction_leaves_what_another_transaction_uses_and_says_that_there_is_more(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3))
    # each look at the clock begins another deletion
    clock = SimpleNamespace(monotonic=partial(next, iter(range(9))))
    monkeypatch.setattr(embedding_cache, "time", clock)
    with pool.connection() as other:
        used = [bytes.fromhex(f"{number:064x}") for number in (1, 2)]
        other.execute("SELECT FROM embedding_cache WHERE text_hash = ANY (%s) FOR UPDATE", (used,))
        assert embedding_cache.evict(pool, spare=1000, maximum=0, seconds=60) == (1, True)
    assert held(pool) == [1, 2]


def test_a_look_up_counts_as_use_once_a_day(pool: Pool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1, 2, 3))
    for number in (1, 2, 3):
        age(pool, number, 10 + number)
    embedding_cache.lookup(pool, OWNER, vectors(3))
    assert evict(pool, maximum=1) == 2
    assert held(pool) == [3]


@pytest.mark.parametrize(("hours", "is_marked"), [(23, False), (25, True)])
def test_most_look_ups_write_nothing(pool: Pool, hours: int, is_marked: bool) -> None:
    embedding_cache.insert(pool, OWNER, vectors(1))
    with pool.connection() as connection:
        connection.execute("UPDATE embedding_cache SET used_at = now() - make_interval(hours => %s)", (hours,))
    embedding_cache.lookup(pool, OWNER, vectors(1))
    with pool.connection() as connection:
        recent = "SELECT used_at > now() - interval '1 hour' FROM embedding_cache"
        assert connection.execute(recent.encode()).fetchall() == [(is_marked,)]


def test_equal_texts_of_two_projects_are_used_and_evicted_apart(pool: Pool) -> None:
    another = VectorOwner("another", OWNER.profile)
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO search_tool (id, project_id, name, index_id, source, config)"
            " SELECT gen_random_uuid(), 'another', 't', index_id, '{}', '{}' FROM search_tool"
        )
    for owner in (OWNER, another):
        embedding_cache.insert(pool, owner, vectors(1))
    age(pool, 1, 5)
    assert evict(pool, spare=1) == 1
    with pool.connection() as connection:
        owners = [project for (project,) in connection.execute("SELECT project_id FROM embedding_cache").fetchall()]
    assert len(owners) == 1
    for owner in (OWNER, another):
        embedding_cache.insert(pool, owner, vectors(2))
    age(pool, 2, 5)
    embedding_cache.lookup(pool, OWNER, vectors(2))
    with pool.connection() as connection:
        old = "SELECT project_id FROM embedding_cache WHERE used_at < now() - interval '4 days' AND text_hash = %s"
        assert connection.execute(old.encode(), (bytes.fromhex(f"{2:064x}"),)).fetchall() == [("another",)]


def test_eviction_is_due_now_and_then(pool: Pool) -> None:
    assert embedding_cache.eviction_due(pool, timedelta(0))
    assert not embedding_cache.eviction_due(pool)
    assert embedding_cache.eviction_due(pool, timedelta(0))
