"""What the row of a file keeps and forgets from one listing, claim and task to the next; directly on the rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.search.query.file_filter import FileSelection
from api.search.query.filters import ResolvedFilters
from schemas.content.document import SourceEntry
from schemas.errors import FolderGone
from schemas.queries.search import Filters
from tests.integration.steps.site import FILES, Site, embedded, listed_site, write
from worker.index.commit import finish
from worker.index.pipeline import index_files
from worker.index.write import write as write_rows
from worker.resources import Resources
from worker.state.index import counting, drift, file_lookup, files, listings, tasks, tool_actions
from worker.state.index.files import MAX_CRASHES, MAX_DEATHS, FileClaim
from worker.state.index.listings import ListedEntry
from worker.state.search import found_chunks, snippets

#: A trusted time of a file: it differs from the time of the listing.
LONG_AGO = 1_000_000_000


@pytest.fixture
def indexed(site: Site) -> Site:
    """An indexed folder whose files are old, so that unchanged files are not read again."""
    for path in site.folder.iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))
    site.do("UPDATE search_index_file SET stamp = 'old' WHERE index_id = %s", site.index.id)
    site.finish_all()
    return site


def row(site: Site, columns: str) -> tuple[Any, ...]:
    """Columns of the first file."""
    return tuple(site.do(f"SELECT {columns} FROM search_index_file WHERE id = %s", first(site))[0])


def first(site: Site) -> UUID:
    return files.file_id(site.index.id, b"0.md")


def set_first(site: Site, values: str) -> None:
    site.do(f"UPDATE search_index_file SET {values} WHERE id = %s", first(site))


def list_first(site: Site, *, before: Callable[[], object] = lambda: None, **changed: Any) -> None:
    """List the first file for a new task, as it is but for what is changed; before that, do something."""
    owner = uuid4()
    plan = tasks.begin_plan(site.pool, site.start(), owner)
    assert plan is not None
    before()
    path, id_path, size, stamp, version = row(site, "path, id_path, size_bytes, stamp, code_version")
    entry = replace(SourceEntry(b"0.md", path, id_path, None, size, stamp), **changed)
    page: dict[str, Any] = {"task_id": site.task, "index_id": site.index.id, "owner": owner}
    page |= {"listed": [ListedEntry(entry, version, None)], "cursor": "1", "first": True}
    listings.record_page(site.pool, **page, unlisted=(), ignored={}, matched=())


# --- from one listing to the next


def test_a_file_that_failed_is_read_again_although_it_did_not_change(indexed: Site) -> None:
    set_first(indexed, "status = 'failed'")
    list_first(indexed)
    assert row(indexed, "status, work") == ("pending", "read")


def test_a_file_whose_listing_failed_is_read_once_it_can_be_listed(indexed: Site) -> None:
    set_first(indexed, "status = 'skipped', listed_reason = 'unreadable'")
    list_first(indexed)
    assert row(indexed, "status, work, listed_reason") == ("pending", "read", None)


def test_a_file_is_held_as_it_is_if_its_outcome_is_of_the_listed_content(indexed: Site) -> None:
    entry = SourceEntry(b"0.md", "0.md", "/0.md", None, 1, "old")
    for status in ("pending", "indexing", "indexed", "skipped", "failed", "removed"):
        set_first(indexed, f"status = '{status}', stamp = 'old'")
        for stamp in ("old", "new"):
            expected = {b"0.md": "0.md"} if status in {"indexed", "skipped"} and stamp == "old" else {}
            assert listings.find_unchanged(indexed.pool, indexed.index.id, [replace(entry, stamp=stamp)]) == expected


def test_a_file_is_found_in_its_own_index_until_it_is_removed(resources: Resources, indexed: Site) -> None:
    set_first(indexed, "node_id = 'n'")
    other = listed_site(resources)
    for name in (str(first(indexed)), "n"):
        found = file_lookup.get(indexed.pool, indexed.index.id, name)
        assert found is not None
        assert found.id == first(indexed)
        assert file_lookup.get(indexed.pool, other.index.id, name) is None
    set_first(indexed, "status = 'removed'")
    for name in (str(first(indexed)), "n"):
        assert file_lookup.get(indexed.pool, indexed.index.id, name) is None


def test_a_file_that_only_moved_keeps_what_is_known_of_its_content(indexed: Site) -> None:
    set_first(indexed, "language = 'python'")
    known = row(indexed, "type, mime, is_binary, language")
    assert None not in known
    list_first(indexed, path="moved.md")
    run = indexed.worker()
    (claim,) = indexed.claim(run)
    assert claim.work == "path"
    index_files(run, [claim])
    assert row(indexed, "status, live_path") == ("indexed", "moved.md")
    assert row(indexed, "type, mime, is_binary, language") == known


@pytest.mark.parametrize(("changed", "is_pending"), [({"id_path": "/b/0.md"}, True), ({"stamp": "another"}, False)])
def test_a_claim_of_a_moved_file_may_have_moved_its_vectors(
    indexed: Site, changed: dict[str, Any], is_pending: bool
) -> None:
    list_first(indexed, **changed)
    for expected in (False, is_pending):
        run = indexed.worker()
        (claim,) = indexed.claim(run)
        assert claim.patch_pending is expected
        files.release(indexed.pool, run.lease.owner)


def test_a_file_that_came_back_before_it_was_removed_stays(site: Site) -> None:
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s", site.index.id)
    set_first(site, "status = 'pending', work = 'remove'")
    tasks.fail(site.pool, site.task, site.index.id, FolderGone("it is gone"))
    claims: list[FileClaim] = []
    # a worker claims what is left before the folder is listed anew
    list_first(site, before=lambda: claims.extend(site.claim(site.worker())))
    assert [claim.work for claim in claims] == ["remove"]
    assert row(site, "status, work") == ("pending", "read")


def test_a_removal_that_was_cancelled_leaves_the_file_in_the_counts(indexed: Site) -> None:
    (indexed.folder / "0.md").unlink()
    indexed.again()
    assert row(indexed, "status, work") == ("pending", "remove")
    indexed.cancel()
    assert set(indexed.outcomes().values()) == {"indexed"}
    counts = "SELECT total_files, indexed_files FROM search_index_task WHERE id = %s"
    assert indexed.do(counts, indexed.task) == [(FILES, FILES)]


def test_the_costs_of_a_file_are_those_of_its_last_run(indexed: Site) -> None:
    chunks, tokens = row(indexed, "embedded_chunks, tokens")
    assert (chunks, tokens > 0) == (1, True)
    write(indexed.folder, 0, "Before anything else, file 0 tells of pears!")
    indexed.again()
    indexed.finish_all()
    later_chunks, later_tokens = row(indexed, "embedded_chunks, tokens")
    assert (later_chunks, later_tokens < 2 * tokens) == (1, True)


# --- deaths


@pytest.mark.parametrize(
    ("earlier", "is_suspect", "after"),
    [
        (MAX_DEATHS - 2, False, (False, 0)),
        (MAX_DEATHS - 1, False, (True, 0)),
        (MAX_DEATHS - 1, True, (True, 0)),
        (MAX_DEATHS, True, (True, 1)),
    ],
)
def test_deaths_after_parsing_count_once_they_are_many(
    site: Site, earlier: int, is_suspect: bool, after: tuple[bool, int]
) -> None:
    set_first(site, f"attempts = {earlier}, suspect = {is_suspect}, size_bytes = 0")
    site.do(
        "UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s AND id <> %s", site.index.id, first(site)
    )
    dies(site)
    assert row(site, "suspect, crashes") == after


def dies(site: Site) -> None:
    """Let a process die that holds the first file and has parsed it."""
    run = site.worker()
    (claim,) = site.claim(run)
    assert claim.id == first(site)
    files.note_parsed(site.pool, run.lease.owner)
    assert site.expire(run)


@pytest.mark.parametrize("by", ["listing", "retry"])
def test_a_file_that_was_given_up_gets_all_its_tries_again(site: Site, by: str) -> None:
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s", site.index.id)
    set_first(site, f"status = 'failed', crashes = {MAX_CRASHES}, attempts = {MAX_DEATHS + 1}, suspect = true")
    assert site.refresh()
    if by == "listing":
        list_first(site)
    else:
        retry = tool_actions.retry(site.pool, site.tool)
        assert retry is not None
        site.task = retry.id
    assert row(site, "status, attempts, crashes") == ("pending", 0, 0)
    dies(site)
    assert row(site, "status, crashes") == ("pending", 0)


def test_a_file_that_is_given_up_keeps_its_live_text(indexed: Site) -> None:
    live = indexed.chunks(live=True)
    write(indexed.folder, 0, "Afterwards this file tells of pears.")
    indexed.again()
    set_first(indexed, f"crashes = {MAX_CRASHES - 1}, attempts = {MAX_DEATHS}, suspect = true")
    run = indexed.worker()
    (made,) = embedded(indexed, run)
    write_rows(run, [made])
    indexed.expire(run)
    assert row(indexed, "status, reason") == ("failed", "crashed")
    assert indexed.chunks(live=True) == live
    assert indexed.tombstones() == {chunk.id for chunk in made.state.new}


# --- lost vectors


def test_a_file_without_its_vectors_counts_as_indexed_once(indexed: Site) -> None:
    def counts() -> list[tuple[int, ...]]:
        return [counting.counts(indexed.pool, indexed.index.id, include_lost=given)[:2] for given in (False, True)]

    query = "SELECT id FROM chunk WHERE file_id = %s AND live"
    drift.mark_lost(indexed.pool, indexed.index.id, [id_ for (id_,) in indexed.do(query, first(indexed))], None)
    assert counts() == [(FILES, FILES), (FILES, FILES)]
    indexed.again()
    drift.take_up(indexed.pool, indexed.index.id, indexed.task, indexed.index.epoch)
    assert not indexed.refresh()
    assert counts() == [(FILES - 1, FILES), (FILES, FILES)]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ({}, ["0.md", "2.md", "3.md"]),
        ({"status": "removed"}, ["1.md"]),
        ({"status": "failed"}, ["2.md"]),
        ({"reason": "parse_failed"}, ["2.md"]),
        ({"reason": "parse_failed", "status": "skipped"}, []),
        ({"q": "3.M"}, ["3.md"]),
        ({"q": "%"}, []),
    ],
)
def test_files_are_listed_by_what_became_of_them(site: Site, asked: dict[str, Any], listed: list[str]) -> None:
    # status, reason, the fingerprint of the live text, its chunks, and whether they would have vectors
    rows = {
        "0.md": ("indexed", None, "f", 1, True),
        "1.md": ("removed", None, None, 0, True),
        "2.md": ("failed", "parse_failed", "f", 1, False),
        "3.md": ("skipped", "unsupported_type", None, 0, True),
    }
    columns = "(status, reason, live_fingerprint, live_chunks, live_embedded)"
    for path, row in rows.items():
        update = f"UPDATE search_index_file SET {columns} = (%s, %s, %s, %s, %s) WHERE path = %s AND index_id = %s"
        site.do(update, *row, path, site.index.id)
    wanted = file_lookup.Wanted(**asked)
    found = file_lookup.page(site.pool, site.index.id, wanted, limit=10)
    assert [file.file_path for file in found] == listed
    ids = site.do("SELECT id FROM search_index_file WHERE index_id = %s ORDER BY path", site.index.id)
    by_path = b"".join(id_.bytes for (id_,) in ids)
    assert found == file_lookup.page_of_some(site.pool, site.index.id, wanted, by_path, limit=10, check=lambda: None)
    shown = {file.file_path: (file.stale, file.embedded) for file in found}
    expected = {"0.md": (False, True), "1.md": (False, False), "2.md": (True, False), "3.md": (False, False)}
    assert shown == {path: expected[path] for path in listed}


def test_the_chunks_of_a_file_are_listed_once_they_are_live(indexed: Site) -> None:
    def listed() -> set[UUID]:
        return {row.chunk_id for row in snippets.page(indexed.pool, first(indexed), after=None, limit=10)}

    before = listed()
    write(indexed.folder, 0, "Another text about pears.")
    indexed.again()
    run = indexed.worker()
    drafts = embedded(indexed, run)
    write_rows(run, drafts)
    assert indexed.drafts()
    assert listed() == before
    finish(run, drafts)
    assert listed().isdisjoint(before)


def test_a_filter_matches_something_as_long_as_a_chunk_of_that_file_is_live(site: Site) -> None:
    filters = Filters(file_ids=[str(first(site))])
    asked = {**ResolvedFilters(filters, FileSelection(ids=[str(first(site))])).values, "index_id": site.index.id}
    run = site.worker()
    drafts = embedded(site, run)
    write_rows(run, drafts)
    assert not found_chunks.any_passes(site.pool, asked)
    finish(run, drafts)
    assert found_chunks.any_passes(site.pool, asked)
    site.do("UPDATE chunk SET live = false WHERE file_id = %s", first(site))
    assert site.chunks(live=True)
    assert not found_chunks.any_passes(site.pool, asked)


@pytest.mark.parametrize(
    ("place", "is_inside"),
    [*((place, True) for place in ("/a", "/a/b", "/a/b/c")), *((place, False) for place in ("/ab", "/", "/b/a", ""))],
)
@pytest.mark.parametrize("column", ["scope", "json_pointer"])
def test_a_filter_by_a_part_of_a_file_takes_all_that_is_in_it(
    indexed: Site, column: str, place: str, is_inside: bool
) -> None:
    indexed.do(f"UPDATE chunk SET {column} = %s WHERE index_id = %s", place, indexed.index.id)
    asked = {**ResolvedFilters(Filters.model_validate({column: "/a"}), None).values, "index_id": indexed.index.id}
    assert found_chunks.any_passes(indexed.pool, asked) is is_inside


@pytest.mark.parametrize("of_nodes", [False, True])
def test_files_below_a_path_are_those_in_that_folder(indexed: Site, of_nodes: bool) -> None:
    places = {"0.md": "notes/a.md", "1.md": "notes/old/a.md", "2.md": "notes-old/a.md", "3.md": "notes"}
    ids = {}
    for path, place in places.items():
        move = "UPDATE search_index_file SET path = %s, id_path = %s WHERE index_id = %s AND path = %s RETURNING id"
        ((ids[place],),) = indexed.do(move, place, f"/{place}", indexed.index.id, path)
    found = file_lookup.below(indexed.pool, indexed.index.id, "/notes", of_nodes=of_nodes)
    assert sorted(found) == sorted(str(id_) for place, id_ in ids.items() if place != "notes-old/a.md")


def test_a_file_is_named_in_its_index_once_it_has_text(resources: Resources, indexed: Site) -> None:
    other = listed_site(resources, 1)
    other.finish_all()
    set_first(indexed, "live_chunks = 0")
    with_text, without = files.file_id(indexed.index.id, b"1.md"), first(indexed)
    asked = [str(with_text), str(without), str(files.file_id(other.index.id, b"0.md")), "no-id"]
    assert list(file_lookup.find_named(indexed.pool, indexed.index.id, asked)) == [str(with_text)]


def test_the_kinds_of_files_with_text_come_by_how_many_there_are(indexed: Site) -> None:
    kinds = [("markdown", "en", 1), ("python", "go", 1), ("python", "go", 1), ("json", "de", 0)]
    for number, kind in enumerate(kinds):
        change = (
            "UPDATE search_index_file SET type = %s, language = %s, live_chunks = %s WHERE index_id = %s AND path = %s"
        )
        indexed.do(change, *kind, indexed.index.id, f"{number}.md")
    assert file_lookup.kinds(indexed.pool, indexed.index.id) == (["python", "markdown"], ["go", "en"])
