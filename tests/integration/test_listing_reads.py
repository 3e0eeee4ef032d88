"""What a listing reads of the rows does not grow with the folder, nor with others, whatever the statistics know."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from schemas.content.document import SourceEntry
from schemas.content.source import LocalSource
from schemas.tool import ToolConfig
from tests.integration.database import rows_read
from tests.integration.test_listing import SETTINGS
from worker.index.lease import Lease
from worker.sources.local_keys import spans_between
from worker.state.index import listings, tasks, tools
from worker.state.index.files import file_id
from worker.state.index.listings import ListedEntry
from worker.state.pool import Pool

CODE = "text-1 k"
FILL = """
INSERT INTO search_index_file
    (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status, mtime_ms)
SELECT l.id, %(index)s, l.path::bytea, l.path, '/' || l.path, 1, %(task)s, 's', %(code)s, 'indexed', 5
FROM unnest(%(ids)s::uuid[], %(paths)s::text[]) AS l (id, path)
"""


@pytest.fixture(autouse=True)
def unknown_to_statistics(pool: Pool) -> None:
    """They know what a test has analyzed."""
    with pool.connection() as connection:
        connection.execute("ALTER TABLE search_index_file SET (autovacuum_enabled = off)")
        connection.execute("ALTER TABLE search_index_listing SET (autovacuum_enabled = off)")


def filled(pool: Pool, files: int) -> tuple[UUID, UUID]:
    """A folder of files that are all known: its index, and the task that lists it."""
    source = LocalSource(kind="local", path="/nowhere")
    wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", SETTINGS, "lancedb", "store")
    tool, task = tools.create(pool, wanted, name="", config=ToolConfig())
    index = tools.index_of_tool(pool, tool)
    assert index is not None
    assert task is not None
    with pool.connection() as connection:
        names = [path(number) for number in range(files)]
        ids = [file_id(index.id, name.encode()) for name in names]
        connection.execute(FILL, {"index": index.id, "task": task, "code": CODE, "ids": ids, "paths": names})
    return index.id, task


def path(number: int) -> str:
    return f"src/a-b.c/{10_000 + number}.md"


def listed(numbers: Sequence[int]) -> list[ListedEntry]:
    entries = [SourceEntry(p.encode(), p, f"/{p}", None, 1, "s", mtime_ms=5) for p in map(path, numbers)]
    return [ListedEntry(entry, CODE, None) for entry in entries]


def record(pool: Pool, index: UUID, task: UUID, entries: Sequence[ListedEntry]) -> None:
    """Record a page that begins after the first of some entries."""
    owner = Lease().owner
    assert tasks.begin_plan(pool, task, owner) is not None
    after, until = (tuple(entries[at].entry.key.split(b"/")) for at in (0, -1))
    listings.record_page(
        pool,
        task_id=task,
        index_id=index,
        owner=owner,
        listed=entries[1:],
        cursor="~",
        unlisted=(),
        ignored={},
        matched=(),
        first=False,
        spans=spans_between(after, until),
    )
    tasks.release_plan(pool, task, owner)


@pytest.mark.parametrize("others", [0, 20])
def test_a_page_reads_no_more_of_a_folder_that_the_statistics_do_not_know(pool: Pool, others: int) -> None:
    for _ in range(others):
        filled(pool, 500)
    if others:
        with pool.connection() as connection:
            connection.execute("ANALYZE search_index_file, search_index_listing")
    index, task = filled(pool, 20_000)
    known, edited = listed(range(9_000, 9_101)), listed([*range(9_000, 9_050), *range(9_051, 9_101)])
    for entries, is_marked in ((known, False), (edited, True)):
        before = rows_read(pool, "search_index_file")
        record(pool, index, task, entries)
        assert rows_read(pool, "search_index_file") - before < 1_000
        with pool.connection() as connection:
            marks = connection.execute("SELECT absent FROM search_index_listing WHERE task_id = %s", (task,)).fetchall()
        assert marks == [(True,)] * is_marked


def test_whether_a_folder_has_files_reads_none_of_other_folders(pool: Pool) -> None:
    for _ in range(10):
        filled(pool, 3_000)
    _, task = filled(pool, 3_000)
    with pool.connection() as connection:
        connection.execute("ANALYZE search_index_file, search_index_listing")
    before = rows_read(pool, "search_index_file")
    assert listings.ignored_if_empty(pool, task) is None
    assert rows_read(pool, "search_index_file") - before < 100


def test_whether_a_folder_that_lost_all_files_has_any_reads_each_once(pool: Pool) -> None:
    for _ in range(20):
        filled(pool, 500)
    index, task = filled(pool, 3_000)
    mark = "INSERT INTO search_index_listing (task_id, file_id, absent) SELECT %s, id, true FROM search_index_file"
    with pool.connection() as connection:
        others = mark.replace("%s", "task_id")
        connection.execute(f"{others} WHERE index_id <> %s LIMIT 60".encode(), (index,))
        connection.execute("ANALYZE search_index_file, search_index_listing, search_index_task")
        connection.execute(f"{mark} WHERE index_id = %s".encode(), (task, index))
    before = rows_read(pool, "search_index_file", "search_index_listing")
    assert listings.ignored_if_empty(pool, task) == {}
    assert rows_read(pool, "search_index_file", "search_index_listing") - before < 10_000
