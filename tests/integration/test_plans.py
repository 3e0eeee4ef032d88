"""Interactive queries read no more than they return, however large an index is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.reason import FileStatus
from schemas.tool import File, IndexSettings, ToolConfig
from tests.integration.database import know_nodes, rows_read
from tests.service import new_database
from worker.state.content import nodes
from worker.state.index import drift, embedding_cache, file_lookup, files, tasks, tools
from worker.state.index.embedding_cache import VectorOwner
from worker.state.index.file_lookup import Wanted
from worker.state.index.leftovers import NO_ID
from worker.state.pool import Pool, open_pool
from worker.state.queries import load

PROFILE = EmbedderProfile(model="m", dimensions=4)
SETTINGS = IndexSettings(embedder=PROFILE, chunks=ChunkSettings(), max_file_bytes=1000)
FILES, FAILED, TEXTS, BATCH = 30_000, 3, 2_000, 2_000

FILL_FILES = """
INSERT INTO search_index_file
    (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status, live_chunks)
SELECT md5(n::text)::uuid, i.id, n::text::bytea, n || '.txt', '/' || n || '.txt', 1, i.id, '', '',
       CASE WHEN n %% %(every)s = 0 THEN 'failed' ELSE 'indexed' END, 1
FROM search_index i, generate_series(1, %(files)s) n
"""
FILL_CHUNKS = """
INSERT INTO chunk (id, index_id, file_id, live, chunk_index, chunk_text, context, lead, trail, content_hash,
                   tokens_estimate, start_line, end_line, start_char, end_char)
SELECT gen_random_uuid(), index_id, id, true, 0, 'x', '', '', '', 'sha256:' || convert_from(key, 'UTF8'), 1, 1, 1, 0, 1
FROM search_index_file
"""
HOLD = """
UPDATE search_index_file SET status = 'indexing', lease_owner = %(owner)s
WHERE id IN (SELECT id FROM search_index_file WHERE index_id = (SELECT id FROM search_index LIMIT 1) LIMIT %(files)s)
RETURNING id
"""
#: Files of each folder, and those that a worker holds of one.
MANY, HELD = {"files": FILES, "every": FILES}, 200
FILL_NODES = """
INSERT INTO content_node (project_id, id, parent_id, id_path, name, type)
SELECT %(project)s, 'n' || n, %(parent)s, '/' || n, n || '.txt', 'text' FROM generate_series(1, %(nodes)s) n
"""
FILL_TASKS = """
INSERT INTO search_index_task (id, tool_id, index_id, kind, status, created_at, finished_at)
SELECT gen_random_uuid(), t.tool_id, t.index_id, 'reindex', 'ready', t.created_at - n * interval '1 second', now()
FROM search_index_task t, generate_series(1, %(tasks)s) n
"""
FOLDER = (
    "INSERT INTO content_node (project_id, id, id_path, name, type) VALUES (%s, 'folder', '/folder', '~', 'folder')"
)


@pytest.fixture(scope="module")
def index_id(pool: Pool) -> UUID:
    """An index of many files with a chunk each, a few of them failed."""
    wanted = tools.NewIndex("p", LocalSource(kind="local", path="/nowhere"), "h.1", SETTINGS, "lancedb", "store")
    tool, _ = tools.create(pool, wanted, name="", config=ToolConfig())
    with pool.connection() as connection:
        values = {"files": FILES, "every": FILES // FAILED}
        connection.execute(FILL_FILES, values)
        connection.execute(FILL_CHUNKS)
        connection.execute("ANALYZE search_index_file, chunk")
    found = tools.index_of_tool(pool, tool)
    assert found is not None
    return found.id


def plan(pool: Pool, module: str, name: str, **values: Any) -> str:
    with pool.connection() as connection:
        return explained(connection, module, name, values)


def plan_while_all_wait(pool: Pool, module: str, name: str, **values: Any) -> str:
    """The plan while every file is pending. Undone at the end: other tests need the files as they are."""
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("UPDATE search_index_file SET status = 'pending'")
        connection.execute("ANALYZE search_index_file")
        return explained(connection, module, name, values)


def explained(connection: Connection[Any], module: str, name: str, values: dict[str, Any]) -> str:
    query = f"EXPLAIN {load(module)[name].as_string()}"
    return "\n".join(line for (line,) in connection.execute(query.encode(), values, prepare=False))


def test_texts_that_are_live_are_looked_up_by_their_index(pool: Pool, index_id: UUID) -> None:
    owner = VectorOwner("p", PROFILE)
    hashes = [f"sha256:{number}" for number in range(FILES - TEXTS // 2 + 1, FILES + TEXTS // 2 + 1)]
    found = embedding_cache.live_elsewhere(pool, owner, "lancedb", hashes)
    assert {hash_ for hash_, *_ in found} == set(hashes[: TEXTS // 2])
    assert len(found) == TEXTS // 2
    # as a join, the chunks of all files would be read for each claim
    steps = plan(pool, "index/embedding_cache", "live_elsewhere", **owner.values, vector_store="lancedb", hashes=hashes)
    assert "chunk_content_hash" in steps
    assert "Hash Join" not in steps


def test_a_plan_for_a_few_chunks_is_not_kept_while_they_become_many(postgres_url: str, template_url: str) -> None:
    with new_database(postgres_url, template_url) as url, open_pool(url, max_size=1) as pool:
        wanted = tools.NewIndex("p", LocalSource(kind="local", path="/nowhere"), "h.1", SETTINGS, "lancedb", "store")
        tools.create(pool, wanted, name="", config=ToolConfig())
        with pool.connection() as connection:
            connection.execute(FILL_FILES, {"files": FILES // 10, "every": FILES})
            connection.execute(f"{FILL_CHUNKS} LIMIT 50".encode())
        owner, absent = VectorOwner("p", PROFILE), [f"sha256:absent {number}" for number in range(10)]
        for _ in range(12):  # often enough that Postgres would keep the plan
            assert not embedding_cache.live_elsewhere(pool, owner, "lancedb", absent)
        with pool.connection() as connection:
            connection.execute(f"{FILL_CHUNKS} WHERE id NOT IN (SELECT file_id FROM chunk)".encode())
        before = rows_read(pool, "chunk")
        assert not embedding_cache.live_elsewhere(pool, owner, "lancedb", absent)
        assert rows_read(pool, "chunk") == before


def test_a_page_of_ids_of_an_index_that_is_not_counted_yet_reads_no_other_chunks(
    postgres_url: str, template_url: str
) -> None:
    with new_database(postgres_url, template_url) as url, open_pool(url) as pool:
        wanted = tools.NewIndex("p", LocalSource(kind="local", path="/nowhere"), "h.1", SETTINGS, "lancedb", "store")
        tools.create(pool, wanted, name="", config=ToolConfig())
        new = uuid4()
        with pool.connection() as connection:
            connection.execute(FILL_FILES, {"files": FILES // 10, "every": FILES})
            connection.execute(FILL_CHUNKS)
            connection.execute(FILL_CHUNKS.replace("(), index_id", "(), %s").encode(), (new,))
        before = rows_read(pool, "chunk")
        first = drift.live_ids(pool, new, None, 10)
        assert len(first) == 10
        assert len(drift.live_ids(pool, new, first[-1], 10)) == 10
        assert rows_read(pool, "chunk") - before < 3 * 10


def test_cached_vectors_are_compared_with_the_chunks_by_their_index(pool: Pool, index_id: UUID) -> None:
    values = {"used_at": datetime(1970, 1, 1, tzinfo=UTC), "began": datetime.now(UTC), "batch": 5000, "text_hash": b""}
    steps = plan(pool, "index/embedding_cache", "probe", project_id="", embedder="", **values)
    assert "chunk_content_hash" in steps
    assert "embedding_cache_used" in steps
    assert "Seq Scan on chunk" not in steps


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("search/file_texts", "is_listed"),
        ("index/counting", "distrust_index"),
        ("index/tasks", "newest"),
        ("index/counting", "counts"),
        ("index/statuses", "newest_of_tool"),
        ("index/statuses", "newest_of_tools"),
        ("index/tasks", "listing_ended"),
        ("index/changes", "changed"),
        ("index/tools", "tools"),
        ("tree/trees", "start_due"),
        ("tree/trees", "note_index_task"),
    ],
)
def test_the_newest_of_many_tasks_is_the_first_of_an_index_and_none_is_sorted(
    pool: Pool, index_id: UUID, module: str, name: str
) -> None:
    values = dict.fromkeys(("project_id", "after_time", "after_id", "paths"))
    values |= dict.fromkeys(("index_id", "tool_id", "tree_id"), index_id)
    values |= {"include_lost": False, "limit": 100, "most_paths": 10}
    values |= dict.fromkeys(("quiet", "patience", "rest"), "1 second")
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute(FILL_TASKS, {"tasks": 5000})
        connection.execute("ANALYZE search_index_task")
        steps = explained(connection, module, name, values)
    assert "search_index_task_index" in steps
    # the tools of a page may be sorted
    assert "created_at DESC" not in steps, steps


def test_the_few_files_that_failed_are_found_among_many(pool: Pool, index_id: UUID) -> None:
    for _ in range(10):  # often enough that Postgres keeps the plan
        found = file_lookup.page(pool, index_id, Wanted(FileStatus.FAILED), limit=100)
    assert len(found) == FAILED
    values = {
        "index_id": index_id,
        "reason": None,
        "q": None,
        "only": None,
        "after_path": None,
        "after_id": None,
        "limit": 100,
    }
    assert "search_index_file_not_indexed" in plan(pool, "index/files", "list", status="failed", **values)
    assert "search_index_file_path" in plan(pool, "index/files", "list", status=None, **values)


@pytest.mark.parametrize("vectors", [True, False])
def test_a_claim_reads_the_smallest_files_by_their_index(pool: Pool, index_id: UUID, vectors: bool) -> None:
    values = {"task_id": index_id, "index_id": index_id, "owner": index_id, "lease": tasks.LEASE, "files": 192}
    values |= {"after_size": -1, "after": NO_ID, "max_size": files.NO_LIMIT, "most": 1, "small": 1, "least": 1}
    values |= {"vectors": vectors}
    steps = plan_while_all_wait(pool, "index/files", "claim", **values)
    assert "search_index_file_due" in steps
    assert "Seq Scan on search_index_file" not in steps


@pytest.mark.parametrize("name", ["files.still_claimed", "files.finish", "chunks.draft"])
def test_a_worker_finds_the_files_it_finishes_by_their_ids(pool: Pool, index_id: UUID, name: str) -> None:
    """By what it holds, it would read all that wait for a request, and those that it finished since the last vacuum."""
    module, query = name.split(".")
    ids = [UUID(int=number) for number in range(64)]
    values = {"ids": ids, "generations": list(range(64)), "owner": index_id, "epoch": 0}
    if name == "chunks.draft":
        values |= {"files": ids, "ids": ["{}"] * len(ids)}
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute(load("index/files")["stage_outcomes"])
        connection.execute(
            "UPDATE search_index_file SET status = 'indexing', lease_owner = %s WHERE id IN "
            "(SELECT id FROM search_index_file ORDER BY id LIMIT 2000)",
            (index_id,),
        )
        steps = explained(connection, f"index/{module}", query, values)
    assert "search_index_file_pkey" in steps
    assert "search_index_file_held" not in steps
    assert "Seq Scan on search_index_file" not in steps


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("index/files", "still_claimed"), ("index/files", "claim_on"), ("index/files", "add_paid")),
        *(("index/chunks", "draft"), ("index/chunks", "lost"), ("index/listings", "unchanged")),
        *(("index/leftovers", "return_files"), ("index/counting", "distrust"), ("search/freshness", "compare")),
        *(("index/drift", "expected"), ("index/drift", "words"), ("tree/build_rows", "lost_leaves")),
    ],
)
def test_the_files_of_a_large_batch_are_found_by_their_ids(pool: Pool, index_id: UUID, module: str, name: str) -> None:
    """A join would read the files of all indexes for each batch, until these are far more than the batch."""
    with pool.connection() as connection:
        ids, chunks = (
            [id_ for (id_,) in connection.execute(f"SELECT id FROM {table} LIMIT {BATCH}".encode()).fetchall()]
            for table in ("search_index_file", "chunk")
        )
    values: dict[str, Any] = dict.fromkeys(("generations", "sizes", "mtimes", "chunks", "tokens"), [0] * BATCH)
    values |= dict.fromkeys(("stamps", "paths", "id_paths"), [""] * BATCH)
    values |= {"ids": ids, "files": ids, "file_ids": ids, "wanted": [True] * BATCH}
    values |= {"owner": index_id, "index_id": index_id, "epoch": 0, "default": "english"}
    if name == "draft":
        values["ids"] = ["{}"] * BATCH
    if name in ("expected", "words", "lost_leaves"):
        values["ids"] = chunks
    assert "Seq Scan on search_index_file" not in plan(pool, module, name, **values)


def test_lost_chunks_of_a_claim_are_found_by_their_files(pool: Pool, index_id: UUID) -> None:
    """While words are searchable before vectors, each claim reads what its files lack."""
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        files = [id_ for (id_,) in connection.execute("SELECT id FROM search_index_file LIMIT 192").fetchall()]
        connection.execute(f"UPDATE chunk SET lost = true WHERE id IN (SELECT id FROM chunk LIMIT {BATCH})".encode())
        connection.execute("ANALYZE chunk")
        steps = explained(connection, "index/chunks", "lost", {"files": files})
    assert "chunk_file" in steps
    assert "Seq Scan on chunk" not in steps


def test_chunks_of_a_folder_that_is_not_counted_yet_are_drafted_without_reading_its_other_files(
    postgres_url: str, template_url: str
) -> None:
    """Postgres counts the rows of a new table after a minute. Until then it takes each folder for a small one."""
    with new_database(postgres_url, template_url) as url, open_pool(url) as pool:
        for number in range(3):
            source = LocalSource(kind="local", path=f"/{number}")
            wanted = tools.NewIndex("p", source, "h.1", SETTINGS, "lancedb", "store")
            tools.create(pool, wanted, name="", config=ToolConfig())
        with pool.connection() as connection:
            connection.execute(FILL_FILES.replace("md5(n::text)", "md5(n || i.id::text)").encode(), MANY)
            held = connection.execute(HOLD, {"owner": UUID(int=1), "files": HELD}).fetchall()
        before = rows_read(pool, "search_index_file")
        with pool.connection() as connection, connection.transaction(force_rollback=True):
            values = {"files": [id_ for (id_,) in held], "generations": [0] * HELD, "ids": [f"{{{uuid4()}}}"] * HELD}
            drafted = connection.execute(load("index/chunks")["draft"], {**values, "owner": UUID(int=1), "epoch": 0})
            assert drafted.fetchall() == [(HELD,)]
        # the foreign key reads each once more
        assert rows_read(pool, "search_index_file") - before <= 3 * HELD


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("tasks", "done"), ("tasks", "complete"), ("messages", "waiting")),
        *(("turns", "fairest"), ("turns", "words_wait"), ("files", "count_pending")),
    ],
)
def test_whether_a_file_waits_is_seen_by_an_index(pool: Pool, index_id: UUID, module: str, name: str) -> None:
    values = {"task_id": index_id, "index_id": index_id, "limit": 9, "most": 9, "patience": tasks.LEASE}
    values |= {
        "most_slices": 8,
        "files_per_slice": 500,
        "only_small": False,
        "only_words": True,
        **tasks.small_bounds(),
        "preferred": None,
        "refused": [],
        "me": None,
        "host": None,
    }
    steps = plan_while_all_wait(pool, f"index/{module}", name, **values)
    assert "search_index_file_due" in steps
    # it would read all files that are finished, until it meets one that waits
    assert "Seq Scan on search_index_file" not in steps


@pytest.mark.parametrize("name", ["close", "stop"])
@pytest.mark.parametrize("explain", [plan, plan_while_all_wait])
def test_the_end_of_a_task_reads_no_files(pool: Pool, index_id: UUID, name: str, explain: Callable[..., str]) -> None:
    values = {"status": "cancelled", "error": None, "error_code": None}
    steps = explain(pool, "index/tasks", name, task_id=index_id, index_id=index_id, **values)
    # those of all indexes, for each small run beside a large folder
    assert "Seq Scan on search_index_file" not in steps


@pytest.mark.parametrize(("key", "all_are_read"), [("n1", False), ("n2", False), ("gone", False), ("folder", True)])
def test_an_edited_document_reads_no_other_files(pool: Pool, key: str, all_are_read: bool) -> None:
    """Of a document that is known, one that is new, one that is gone, and a folder."""
    project, index = uuid4().hex, uuid4()
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute(FOLDER, (project,))
        connection.execute(FILL_NODES, {"project": project, "parent": "folder", "nodes": 2})
        made = "(id, project_id, identity, source, settings, vector_store, keyword_index, namespace)"
        row = (index, project, project, '{"kind": "nodes"}', "{}", "lancedb", "store", project)
        connection.execute(f"INSERT INTO search_index {made} VALUES (%s, %s, %s, %s, %s, %s, %s, %s)".encode(), row)
        made = "(id, tool_id, index_id, kind, status)"
        task = (index, index, index, "reindex", "indexing")
        connection.execute(f"INSERT INTO search_index_task {made} VALUES (%s, %s, %s, %s, %s)".encode(), task)
        filed = "(id, index_id, key, path, id_path, node_id, size_bytes, task_id, stamp, code_version)"
        for name in ("n1", "gone"):
            file = (uuid4(), index, name.encode(), name, f"/folder/{name}", name, 1, index, "", "")
            connection.execute(
                f"INSERT INTO search_index_file {filed} VALUES ({', '.join(['%s'] * 10)})".encode(), file
            )
        values = {"index_id": index, "task_id": index, "keys": [key.encode()]}
        query = f"EXPLAIN ANALYZE {load('index/listings')['note_absent_at_keys'].as_string()}"
        lines = [line for (line,) in connection.execute(query.encode(), values, prepare=False)]
    (by_path,) = [number for number, line in enumerate(lines) if "string_to_array" in line]
    scan = next(line for line in reversed(lines[:by_path]) if " on search_index_file" in line)
    assert ("never executed" not in scan) is all_are_read


def test_a_page_of_a_listing_reads_the_files_of_its_spans_alone(pool: Pool, index_id: UUID) -> None:
    keys = [f"{number}".encode() for number in range(10_000, 10_100)]
    values = {"index_id": index_id, "task_id": index_id, "starts": [keys[0], b"~"], "ends": [keys[-1] + b"\0", b"~~"]}
    values["listed"] = 200
    query = load("index/listings")["hash_known"].as_string()
    with pool.connection() as connection:
        files.prefer_indexes(connection)
        (found,) = connection.execute(query.encode(), values).fetchall()
        # many files are gone: the hash would be that of one string, which holds at most 1 GB
        (with_one_more,) = connection.execute(query.encode(), {**values, "listed": 2}).fetchall()
        steps = explained(connection, "index/listings", "hash_known", values)
    assert found[0] == sum(keys[0] <= str(number).encode() <= keys[-1] for number in range(1, FILES + 1))
    assert with_one_more[0] == 3
    assert "search_index_file_key" in steps


def test_named_files_are_found_by_their_ids(pool: Pool, index_id: UUID) -> None:
    first = file_lookup.page(pool, index_id, Wanted(), limit=1)[0].file_id
    assert file_lookup.find_named(pool, index_id, [str(first), "no such node", str(index_id)]) == [str(first)]
    assert "Seq Scan" not in plan(pool, "index/files", "named", index_id=index_id, ids=[first], names=["node"])


def test_what_lies_below_a_path_is_found_by_the_paths_index(pool: Pool, index_id: UUID) -> None:
    ((first,),) = [file_lookup.find_named(pool, index_id, [str(file.file_id)]) for file in page_of_one(pool, index_id)]
    assert file_lookup.below(pool, index_id, "/1.txt") == [first]
    assert [file_lookup.below(pool, index_id, path) for path in ("/1", "/1.txt/2", "/nowhere")] == [[], [], []]
    assert len(file_lookup.below(pool, index_id, "")) == FILES
    values = {"index_id": index_id, "id_path": "/1.txt", "path": "1.txt", "limit": None}
    steps = plan(pool, "index/files", "below", **values)
    assert "search_index_file_path" in steps
    assert "Seq Scan" not in steps


def test_a_path_that_its_row_has_in_parts_is_found_below_its_folder(pool: Pool, index_id: UUID) -> None:
    folder, name = "a" * 1_500, "b" * 1_500
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version,"
            " live_chunks) VALUES (%(id)s, %(id)s, '', %(path)s, %(id_path)s, 1, %(id)s, '', '', 1)",
            {"id": index_id, "path": files.fitting(f"{folder}/{name}"), "id_path": f"/{folder}/{name}"},
        )
    try:
        for below in (folder, f"{folder}/{name}"):
            assert file_lookup.below(pool, index_id, f"/{below}") == [str(index_id)]
    finally:
        with pool.connection() as connection:
            connection.execute("DELETE FROM search_index_file WHERE id = %s", (index_id,))


def page_of_one(pool: Pool, index_id: UUID) -> list[File]:
    return file_lookup.page(pool, index_id, Wanted(), limit=1)


@pytest.mark.parametrize("parent", ["folder", None])
def test_a_page_of_nodes_is_read_in_the_order_of_names(pool: Pool, parent: str | None) -> None:
    project = f"nodes of {parent}"
    know_nodes(pool)
    with pool.connection() as connection:
        # a plan that was made for two nodes would read all of them to check each parent
        connection.execute("DISCARD PLANS")
        connection.execute(FOLDER, (project,))
        connection.execute(FILL_NODES, {"project": project, "parent": parent, "nodes": FILES})
        connection.execute("ANALYZE content_node")
    for _ in range(10):  # often enough that Postgres keeps the plan
        found = nodes.page(pool, project, parent, after=("299.txt", "n299"), limit=2)
    assert [node.name for node in found] == ["2990.txt", "29900.txt"]
    place = {"project_id": project, "parent_id": parent, "after_name": "299.txt", "after_id": "n299", "limit": 2}
    # sorting the whole folder for each page would read all its nodes
    for classes in (None, list(range(6_000))):
        assert "content_node_order" in plan(pool, "content/nodes", "page", **place, classes=classes)
    steps = plan(pool, "content/nodes", "page_of_classes", **place, classes=[0, 1])
    assert steps.count("content_node_seen") == 2


def test_a_new_database_adds_nodes_without_reading_the_others(postgres_url: str, template_url: str) -> None:
    """A session keeps the plans of its first nodes, which nothing is known of."""
    with new_database(postgres_url, template_url) as url, open_pool(url, max_size=1) as pool:
        for project, count in (("first", 10), ("many", 2_000)):
            before = rows_read(pool, "content_node")
            with pool.connection() as connection:
                connection.execute(FOLDER, (project,))
                connection.execute(FILL_NODES, {"project": project, "parent": "folder", "nodes": count})
            cost = rows_read(pool, "content_node") - before
        assert cost < 10 * count
