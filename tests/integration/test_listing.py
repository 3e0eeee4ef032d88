"""What a listing leaves out, counted exactly even if the listing processes die."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from psycopg.rows import dict_row

from schemas.content.document import ListingPage
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.errors import LeaseLost, SourceUnavailable
from schemas.status import TaskKind
from schemas.tool import IndexSettings, ToolConfig
from tests.service import eventually
from worker.ignore import Rules
from worker.index.catalog import ListingRun, list_pages, open_listing
from worker.index.lease import Lease
from worker.sources import Source
from worker.sources.local import LocalFolder
from worker.state.index import listings, tasks, tools
from worker.state.pool import Pool

SETTINGS = IndexSettings(
    embedder=EmbedderProfile(model="m", dimensions=4),
    chunks=ChunkSettings(),
    types=("md", "markdwn"),
    # the first matches on the first page only, the second on a late one
    exclude=("!.gitignore", "!c/3.md", "d/"),
    keep=("editors",),
    max_file_bytes=1000,
)
#: What of these settings matches nothing among these files.
UNMATCHED = (
    "No listed file or folder matches config.types 'markdwn' (did you mean 'markdown'?) or config.exclude 'd/' "
    "or config.keep 'editors'; correct or remove that."
)
FILES = {
    ".gitignore": "*.tmp\nout/\n",
    ".git/config": "",
    **{f"{letter}/{number}.{kind}": "" for letter in "abc" for number in range(4) for kind in ("md", "tmp", "txt")},
    "b/out/x.md": "",
    "c/uv.lock": "",
}
IGNORED = {"ignore_file": 12, "ignore_file_directories": 1, "locks": 1, "types": 13, "vcs_directories": 1}


class Breaking:
    """A folder that fails once at each of its pages `breaks`, before or after the page is known."""

    def __init__(self, folder: LocalFolder, breaks: set[int]) -> None:
        self._folder, self._breaks, self._pages = folder, breaks, 0
        #: Where the pages ended that were read so far.
        self.ended: list[str | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)

    def list(self, cursor: str | None) -> ListingPage:
        self._pages += 1
        if self._pages in self._breaks:
            raise SourceUnavailable("not now")
        page = self._folder.list(cursor)
        self.ended.append(page.cursor)
        return page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def task(pool: Pool, folder: Path) -> UUID:
    source = LocalSource(kind="local", path=str(folder))
    wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", SETTINGS, "lancedb", "store")
    _, made = tools.create(pool, wanted, name="", config=ToolConfig())
    assert made is not None
    return made


def begun(pool: Pool, task: UUID, folder: Path, *, breaks: set[int] | None = None) -> ListingRun:
    """The listing as a worker resumes it that has just started."""
    lease = Lease()
    plan = tasks.begin_plan(pool, task, lease.owner)
    assert plan is not None
    index = tools.index(pool, plan.index_id)
    assert index is not None

    def opened(rules: Rules) -> Source:
        return Breaking(LocalFolder(str(folder), [folder], rules, page_size=3), breaks or set())

    return open_listing(plan, index, opened, pool, lease)


def list_all(listing: ListingRun) -> None:
    """List until the end."""
    *others, last = list_pages(listing)
    assert last.last
    assert not any(page.last for page in others)


def released(pool: Pool, listing: ListingRun) -> None:
    tasks.release_plan(pool, listing.plan.id, listing.lease.owner)


def row(pool: Pool, task: UUID) -> dict[str, Any]:
    with pool.connection() as connection:
        found = connection.cursor(row_factory=dict_row).execute(
            "SELECT * FROM search_index_task WHERE id = %s", (task,)
        )
        return found.fetchone() or {}


def paths(pool: Pool, listing: ListingRun, work: str = "read") -> set[str]:
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT path FROM search_index_file WHERE index_id = %s AND work = %s", (listing.index.id, work)
        )
        return {path for (path,) in rows}


def test_a_slice_whose_time_is_up_reads_no_page_in_vain(pool: Pool, folder: Path, task: UUID) -> None:
    """Opening what a page contains may take long, so what is read is recorded."""
    listed = 0
    while True:
        listing = begun(pool, task, folder)
        (page,) = list_pages(listing, until=0.0)
        listed += 1
        assert [*cast(Breaking, listing.source).ended] == [row(pool, task)["list_cursor"]]
        if page.last:
            break
        released(pool, listing)
    assert (listed > 2, len(paths(pool, listing))) == (True, 12)


@pytest.mark.parametrize("pages", [1, 60])
def test_counts_hold_over_slices(pool: Pool, folder: Path, task: UUID, pages: int) -> None:
    slices, ended = 0, False
    while not ended:
        listing = begun(pool, task, folder)
        *_, page = islice(list_pages(listing), pages)
        ended = page.last
        released(pool, listing)
        slices += 1
    assert row(pool, task)["ignored"] == IGNORED
    assert row(pool, task)["listing_warning"] == UNMATCHED
    assert paths(pool, listing) == {f"{letter}/{number}.md" for letter in "abc" for number in range(4)}
    assert (slices > 5) == (pages == 1)


def test_a_slice_that_broke_off_counts_nothing_twice(pool: Pool, folder: Path, task: UUID) -> None:
    for page in (1, 2, 3, 5):
        listing = begun(pool, task, folder, breaks={page})
        with pytest.raises(SourceUnavailable):
            list_all(listing)
        released(pool, listing)
    list_all(begun(pool, task, folder))
    assert row(pool, task)["ignored"] == IGNORED
    assert row(pool, task)["listing_warning"] == UNMATCHED


def test_the_next_page_is_read_while_one_is_recorded(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    read = listing.source
    assert isinstance(read, Breaking)
    pages = list_pages(listing)
    for number in range(1, 4):
        next(pages)
        recorded = row(pool, task)["list_cursor"], row(pool, task)["matched"]
        eventually(partial(_has_length, read.ended, number + 1), 10)
        # what is read ahead is not recorded
        assert (row(pool, task)["list_cursor"], row(pool, task)["matched"]) == recorded
        assert recorded[0] == read.ended[number - 1]


def _has_length(values: list[Any], length: int) -> bool:
    return len(values) == length


def test_a_page_before_one_that_cannot_be_read_is_recorded(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder, breaks={2})
    pages = list_pages(listing)
    assert next(pages).first
    with pytest.raises(SourceUnavailable):
        next(pages)
    assert row(pool, task)["list_cursor"] is not None
    assert paths(pool, listing)


def test_a_page_of_a_worker_that_lost_its_lease_is_not_counted(pool: Pool, folder: Path, task: UUID) -> None:
    old = begun(pool, task, folder)
    released(pool, old)
    list_all(begun(pool, task, folder))
    with pytest.raises(LeaseLost):
        list_all(old)
    assert row(pool, task)["ignored"] == IGNORED


def test_a_listing_begun_anew_counts_from_nothing(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    cursor, first = None, True
    while first or cursor is not None:
        # as if the process died after the last page, before the end of the listing was recorded
        page = listing.source.list(cursor)
        listings.record_page(
            pool,
            task_id=task,
            index_id=listing.index.id,
            owner=listing.lease.owner,
            listed=[],
            cursor=page.cursor,
            unlisted=(),
            ignored=page.ignored,
            matched=(),
            first=first,
        )
        cursor, first = page.cursor, False
    released(pool, listing)
    list_all(begun(pool, task, folder))
    assert row(pool, task)["ignored"] == IGNORED


def test_a_listing_begun_anew_forgets_what_matched(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    *_, _last = list_pages(listing)
    with pool.connection() as connection:
        # as if the process died after the last page, before the end of the listing was recorded
        connection.execute("UPDATE search_index_task SET listing = true WHERE id = %s", (task,))
    (folder / "c/3.md").unlink()
    list_all(begun(pool, task, folder))
    assert row(pool, task)["listing_warning"] == UNMATCHED.replace("'d/'", "'!c/3.md', 'd/'")


def next_task(pool: Pool, listing: ListingRun) -> UUID:
    """Start another task, once the previous one has ended."""
    with pool.connection() as connection:
        connection.execute("UPDATE search_index_task SET status = 'ready' WHERE id = %s", (listing.plan.id,))
        connection.execute("UPDATE search_index_file SET status = 'skipped', work = 'read', live_fingerprint = ''")
        made = tasks.create(
            connection,
            tool_id=listing.plan.tool_id,
            index_id=listing.index.id,
            folder_node_id="h.1",
            kind=TaskKind.REINDEX,
        )
    assert made is not None
    return made


def test_the_counts_stay_until_the_next_listing_begins(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    assert row(pool, following)["ignored"] == IGNORED
    assert row(pool, following)["listing_warning"] == UNMATCHED
    (folder / "a/0.tmp").unlink()
    (folder / "c/x.markdwn").write_text("")
    list_all(begun(pool, following, folder))
    assert row(pool, following)["ignored"] == {**IGNORED, "ignore_file": 11}
    without_types = UNMATCHED.replace("config.types 'markdwn' (did you mean 'markdown'?) or ", "")
    assert row(pool, following)["listing_warning"] == without_types


def test_a_file_that_is_listed_again_unchanged_keeps_its_row_as_it_is(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    with pool.connection() as connection:
        query = "UPDATE search_index_file SET mtime_ms = 1 WHERE index_id = %s AND path = 'a/1.md'"
        assert connection.execute(query, (listing.index.id,)).rowcount == 1
    (folder / "a/0.md").write_text("edited")
    before = versions(pool, listing)
    list_all(begun(pool, following, folder))
    after = versions(pool, listing)
    # an edited file waits, and of another one only the time is corrected; not even a lock is left in the other rows
    assert {path for path in after if after[path] != before[path]} == {"a/0.md", "a/1.md"}
    with pool.connection() as connection:
        query = "SELECT path FROM search_index_file WHERE index_id = %s AND status = 'pending'"
        assert connection.execute(query, (listing.index.id,)).fetchall() == [("a/0.md",)]
        query = "SELECT count(*) FROM search_index_file WHERE index_id = %s AND mtime_ms = 1"
        assert connection.execute(query, (listing.index.id,)).fetchall() == [(0,)]


def versions(pool: Pool, listing: ListingRun) -> dict[str, tuple[str, str]]:
    """Where Postgres keeps each file's row, and the last transaction that locked it."""
    with pool.connection() as connection:
        query = "SELECT path, ctid::text, xmax::text FROM search_index_file WHERE index_id = %s"
        rows = connection.execute(query, (listing.index.id,)).fetchall()
        return {path: (place, locker) for path, place, locker in rows}


@pytest.mark.parametrize("gone", [False, True])
def test_only_what_no_rule_explains_is_held(pool: Pool, folder: Path, task: UUID, gone: bool) -> None:
    for number in range(30):
        (folder / f"{number}.md").write_text("")
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    (folder / ".gitignore").write_text("*.tmp\nout/\n" if gone else "*.tmp\nout/\n/*.md\n")
    if gone:
        for number in range(30):
            (folder / f"{number}.md").unlink()
    list_all(begun(pool, following, folder))
    held = row(pool, following)["held_removals"]
    removed = paths(pool, listing, "remove")
    assert (held, len(removed)) == ((30, 0) if gone else (0, 30))
