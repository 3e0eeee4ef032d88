"""What a listing lacks: pages that tell their spans leave rows that are as listed alone, and mark what is gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from schemas.content.document import ListingPage
from schemas.content.source import LocalSource
from schemas.tool import ToolConfig
from tests.integration.test_listing import SETTINGS, begun, list_all, next_task, paths, released, row, versions
from worker.index.catalog import list_pages, open_listing
from worker.index.lease import Lease
from worker.sources import Source, local_keys
from worker.sources.local import LocalFolder
from worker.state.index import files, tasks, tool_actions, tools
from worker.state.pool import Pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for letter in "abc":
        (tmp_path / letter).mkdir()
        for number in range(4):
            (tmp_path / letter / f"{number}.md").write_text("")
            (tmp_path / letter / f"{number}.txt").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("")
    return tmp_path


@pytest.fixture
def task(pool: Pool, folder: Path) -> UUID:
    wanted = tools.NewIndex(
        f"p-{uuid4().hex}", LocalSource(kind="local", path=str(folder)), "h.1", SETTINGS, "lancedb", "store"
    )
    _, made = tools.create(pool, wanted, name="", config=ToolConfig())
    assert made is not None
    return made


def marks(pool: Pool, task: UUID) -> dict[str, bool]:
    """The paths that a listing marked, and whether it lacks them."""
    with pool.connection() as connection:
        query = "SELECT f.path, l.absent FROM search_index_listing l JOIN search_index_file f ON f.id = l.file_id"
        return dict(connection.execute(f"{query} WHERE l.task_id = %s".encode(), (task,)).fetchall())


def test_files_that_are_as_they_were_get_no_mark(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    assert marks(pool, task) == {}
    following = next_task(pool, listing)
    (folder / "b/1.md").unlink()
    (folder / "c/2.md").write_text("edited")
    before = versions(pool, listing)
    list_all(begun(pool, following, folder))
    assert marks(pool, following) == {"b/1.md": True}
    assert (paths(pool, listing, "remove"), paths(pool, listing)) == ({"b/1.md"}, set(before) - {"b/1.md"})
    assert {path for path, place in versions(pool, listing).items() if place != before[path]} == {"b/1.md", "c/2.md"}


@pytest.mark.parametrize(
    "changed",
    [
        "status = 'failed'",
        "work = 'remove'",
        "stamp = ''",
        "stamp = stamp || '0'",
        "code_version = 'markdown-0'",
        "path = 'a/9.md'",
        "id_path = '/a/9.md'",
        "listed_reason = 'unreadable'",
        "status = 'pending'",
        "status = 'indexing'",
        "status = 'removed'",
    ],
)
def test_a_row_that_is_not_as_listed_is_worked_on(pool: Pool, folder: Path, task: UUID, changed: str) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    with pool.connection() as connection:
        query = f"UPDATE search_index_file SET {changed} WHERE index_id = %s AND path = 'a/1.md'"
        assert connection.execute(query.encode(), (listing.index.id,)).rowcount == 1
    list_all(begun(pool, following, folder))
    with pool.connection() as connection:
        query = "SELECT task_id FROM search_index_file WHERE index_id = %s AND id = %s AND status = 'pending'"
        file = files.file_id(listing.index.id, b"a/1.md")
        assert connection.execute(query, (listing.index.id, file)).fetchall() == [(following,)]


def test_a_listing_that_an_earlier_release_began_marks_all_files(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    (folder / "b/1.md").unlink()
    with pool.connection() as connection:
        # it had listed the first directory
        connection.execute("UPDATE search_index_task SET list_cursor = %s WHERE id = %s", (b"a/3.txt".hex(), following))
        seen = "INSERT INTO search_index_listing (task_id, file_id) SELECT %s, id FROM search_index_file"
        connection.execute(f"{seen} WHERE index_id = %s AND path < 'b'".encode(), (following, listing.index.id))
    list_all(begun(pool, following, folder))
    assert {path for path, is_absent in marks(pool, following).items() if is_absent} == {"b/1.md"}
    assert len(marks(pool, following)) == 12
    assert paths(pool, listing, "remove") == {"b/1.md"}


def test_a_listing_begun_anew_forgets_what_it_lacked(pool: Pool, folder: Path, task: UUID) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    (folder / "a/0.md").unlink()
    list_all(begun(pool, following, folder))
    assert marks(pool, following) == {"a/0.md": True}
    with pool.connection() as connection:
        # as if the process died after the last page, before the end of the listing was recorded
        connection.execute("UPDATE search_index_task SET listing = true WHERE id = %s", (following,))
        connection.execute("UPDATE search_index_file SET status = 'skipped', work = 'read' WHERE work = 'remove'")
    (folder / "a/0.md").write_text("back")
    list_all(begun(pool, following, folder))
    assert (marks(pool, following), paths(pool, listing, "remove")) == ({}, set())


def test_a_crash_of_the_server_undoes_no_first_page(pool: Pool, folder: Path, task: UUID) -> None:
    """It forgets what an earlier listing of the same task lacked."""
    listing = begun(pool, task, folder)
    list_all(listing)
    with pool.connection() as connection:
        connection.execute("CREATE TABLE commits (cursor text, how text)")
        connection.execute(
            "CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO commits VALUES (NEW.list_cursor, current_setting('synchronous_commit')); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER note_commit AFTER UPDATE ON search_index_task DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW WHEN (OLD.list_cursor IS DISTINCT FROM NEW.list_cursor) EXECUTE FUNCTION note_commit()"
        )
    try:
        list_all(begun(pool, next_task(pool, listing), folder))
        with pool.connection() as connection:
            noted = connection.execute("SELECT how FROM commits").fetchall()
    finally:
        with pool.connection() as connection:
            connection.execute("DROP FUNCTION note_commit CASCADE")
            connection.execute("DROP TABLE commits")
    assert noted[0] == ("on",)
    assert {*noted[1:]} == {("off",)}


def test_a_file_that_a_later_page_lists_is_not_gone(pool: Pool, folder: Path, task: UUID) -> None:
    """A page ended with a file, which is a directory by the next page, and that one ends within it."""
    place, elsewhere = folder / "a/0.md", folder.parent / uuid4().hex
    place.unlink()
    place.mkdir()
    for name in "wxyz":
        (place / f"{name}.md").write_text("")
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    place.rename(elsewhere)
    place.write_text("")
    again = begun(pool, following, folder)
    [*list_pages(again, until=0.0)]
    assert row(pool, following)["list_cursor"] == f"~{b'a/0.md'.hex()}"
    assert marks(pool, following) == {f"a/0.md/{name}.md": True for name in "wxyz"}
    released(pool, again)
    place.unlink()
    elsewhere.rename(place)
    list_all(begun(pool, following, folder))
    assert (marks(pool, following), paths(pool, listing, "remove")) == ({}, set())


class Spanless(LocalFolder):
    """A folder that does not tell the spans of its pages."""

    def list(self, cursor: str | None) -> ListingPage:
        return replace(super().list(cursor), spans=None)


def change(folder: Path, rng: Random) -> None:
    """Add, edit, remove, move or replace something, or make a directory unreadable to nobody but its rules."""
    names = ["a", "a-b", "a.md", "b", "b.md", "\udcff.md"]
    place = folder.joinpath(*rng.choices(names, k=rng.randrange(1, 4)))
    other = folder.joinpath(*rng.choices(names, k=rng.randrange(1, 3)))
    with suppress(OSError):
        match rng.randrange(5):
            case 0 | 1:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(rng.choice("ab"))
            case 2:
                shutil.rmtree(place) if place.is_dir() else place.unlink()
            case 3:
                other.rename(place)
            case 4:
                (place / ".gitignore").write_text(rng.choice(["a\n", "*.md\n", ""]))


def rows_of(pool: Pool, index_id: UUID) -> set[tuple[Any, ...]]:
    columns = "key, path, id_path, status, work, stamp, code_version, listed_reason, mtime_ms, missing"
    with pool.connection() as connection:
        return {
            (bytes(key), *others)
            for key, *others in connection.execute(
                f"SELECT {columns} FROM search_index_file WHERE index_id = %s".encode(), (index_id,)
            )
        }


def test_files_of_a_page_without_spans_are_not_gone_and_others_between_them_are(
    pool: Pool, folder: Path, task: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder / "b" / ("d" * 20)
    deep.mkdir()
    for number in range(10):
        (deep / f"{number}.md").write_text("")
    listing = begun(pool, task, folder)
    list_all(listing)
    monkeypatch.setattr(local_keys, "MAX_SPANNED_KEY", 15)
    following = next_task(pool, listing)
    (deep / "1.md").unlink()
    (deep / "9.md").unlink()
    before = versions(pool, listing)
    list_all(begun(pool, following, folder))
    gone = {f"b/{deep.name}/{number}.md" for number in (1, 9)}
    assert {path for path, is_absent in marks(pool, following).items() if is_absent} == gone
    assert paths(pool, listing, "remove") == gone
    assert {path for path, place in versions(pool, listing).items() if place != before[path]} == gone


def test_a_file_that_a_later_page_without_spans_lists_is_not_gone(
    pool: Pool, folder: Path, task: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = begun(pool, task, folder)
    list_all(listing)
    following = next_task(pool, listing)
    with pool.connection() as connection:
        # an earlier page lacked it
        mark = "INSERT INTO search_index_listing (task_id, file_id, absent) VALUES (%s, %s, true)"
        connection.execute(mark, (following, files.file_id(listing.index.id, b"c/2.md")))
        connection.execute(
            "UPDATE search_index_task SET list_cursor = %s WHERE id = %s", (f"~{b'a/3.txt'.hex()}", following)
        )
    monkeypatch.setattr(local_keys, "MAX_SPANNED_KEY", 2)
    list_all(begun(pool, following, folder))
    assert ("c/2.md", True) not in marks(pool, following).items()
    assert paths(pool, listing, "remove") == set()


@pytest.mark.parametrize("most", [local_keys.MAX_SPANNED_KEY, 3])
@pytest.mark.parametrize("seed", range(8))
def test_pages_with_spans_lead_to_the_same_rows_as_pages_without(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(local_keys, "MAX_SPANNED_KEY", most)
    rng, folder = Random(seed), tmp_path / "folder"
    folder.mkdir()
    source = LocalSource(kind="local", path=str(folder))
    settings = SETTINGS.model_copy(update={"types": (), "exclude": (), "keep": ()})
    tool_ids = []
    for _ in range(2):
        wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", settings, "lancedb", "store")
        tool_ids.append(tools.create(pool, wanted, name="", config=ToolConfig())[0])
    for round_ in range(6):
        allow_removals = rng.random() < 0.5
        for _ in range(rng.choice([0, 1, 60])):
            change(folder, rng)
        found = []
        for tool_id, opened in zip(tool_ids, (LocalFolder, Spanless), strict=True):
            index = tools.index_of_tool(pool, tool_id)
            assert index is not None
            if round_:
                tool_actions.reindex(pool, tool_id, full=False, allow_removals=allow_removals)
            list_in_slices(pool, index.id, partial(opened, str(folder), [folder]), Random(seed + round_))
            found.append(rows_of(pool, index.id))
            settle(pool, index.id)
        assert found[0] == found[1]


def list_in_slices(pool: Pool, index_id: UUID, opened: Callable[..., Source], rng: Random) -> None:
    """List a folder for the open task of an index, each slice in another process with pages of another size."""
    with pool.connection() as connection:
        query = "SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC LIMIT 1"
        ((task,),) = connection.execute(query, (index_id,)).fetchall()
    ended = False
    while not ended:
        lease = Lease()
        plan = tasks.begin_plan(pool, task, lease.owner)
        index = tools.index(pool, index_id)
        assert plan is not None
        assert index is not None
        listing = open_listing(plan, index, partial(opened, page_size=rng.randrange(1, 9)), pool, lease)
        ended = [page.last for page in islice(list_pages(listing), rng.randrange(1, 9))][-1]
        tasks.release_plan(pool, task, lease.owner)


def settle(pool: Pool, index_id: UUID) -> None:
    """End all work on the files of an index, and its task."""
    with pool.connection() as connection:
        ended = (
            "UPDATE search_index_file SET work = 'read', status ="
            " CASE WHEN status = 'removed' OR work = 'remove' THEN 'removed' ELSE 'skipped' END,"
            " live_fingerprint = '' WHERE index_id = %s"
        )
        connection.execute(ended, (index_id,))
        connection.execute("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", (index_id,))
