"""What a listing does about files that it did not see; directly on the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from api.http.disconnect import Disconnect
from api.search.query import refresh
from api.search.query.refresh import StaleFiles
from schemas.content.document import SourceEntry
from schemas.queries.search import Refresh
from tests.integration.steps.site import Site, listed_site, write
from worker.resources import Resources
from worker.sources.local import LocalFolder
from worker.state.index import listings, task_notes, tasks, turns
from worker.state.search import file_texts, freshness
from worker.state.search.freshness import ListingComparison

#: Files in a directory that cannot be listed, and beside it. If this many were gone, their removal would be held.
CLOSED, BESIDE = 22, 2


@pytest.fixture
def listing(resources: Resources) -> tuple[Site, Callable[..., None], Callable[[bool], int]]:
    """A folder whose files are all known, with functions that record a page of its next listing and end it."""
    folder = resources.home.parent / uuid4().hex
    (folder / "closed").mkdir(parents=True)
    for number in range(CLOSED):
        write(folder / "closed", number, "behind a door")
    for number in range(BESIDE):
        write(folder, number, "beside it")
    site = Site(resources, folder)
    site.list_folder()
    site.do("UPDATE search_index_file SET status = 'indexed', live_fingerprint = '' WHERE index_id = %s", site.index.id)
    assert site.refresh()
    task, owner = site.start(), uuid4()
    plan = tasks.begin_plan(site.pool, task, owner)
    assert plan is not None
    values: dict[str, Any] = {"task_id": task, "index_id": plan.index_id, "owner": owner}

    def record(
        unlisted: list[bytes],
        ignored: dict[str, int],
        *,
        first: bool,
        last: bool = True,
        keys: list[bytes] | None = None,
    ) -> None:
        more: dict[str, Any] = {
            "listed": [],
            "cursor": None if last else "1",
            "unlisted": unlisted,
            "ignored": ignored,
            "matched": [],
            "first": first,
            "keys": keys,
        }
        listings.record_page(site.pool, **values, **more)

    def end(hold: bool, *, left_out: int = 0, keys: list[bytes] | None = None) -> int:
        more: dict[str, Any] = {"hold": hold, "left_out": left_out, "keys": keys}
        return listings.end_listing(site.pool, **values, **more, warning="held", listing_warning=None)

    return site, record, end


def waiting(site: Site) -> set[str]:
    return {path for path, status in site.outcomes().items() if status == "pending"}


@pytest.mark.parametrize("keys", [None, [b"closed", b"0.md", b"1.md"]])
@pytest.mark.parametrize("hold", [False, True])
def test_what_could_not_be_listed_is_not_gone(listing: Any, hold: bool, keys: list[bytes] | None) -> None:
    site, record, end = listing
    record([b"closed/"], {}, first=True, last=False)
    # a later page knows nothing of the directories of an earlier one
    record([], {}, first=False, keys=keys)
    asked: dict[str, Any] = {"task_id": site.task, "index_id": site.index.id}
    assert not listings.too_many_vanished(site.pool, **asked)
    assert list(listings.read_vanished(site.pool, task_id=site.task)) == [
        f"{number}.md".encode() for number in range(BESIDE)
    ]
    assert end(hold, keys=keys) == 0
    assert waiting(site) == {f"{number}.md" for number in range(BESIDE)}


@pytest.mark.parametrize("hold", [False, True])
def test_most_files_gone_at_once_are_held_where_that_is_wanted(listing: Any, hold: bool) -> None:
    site, record, end = listing
    record([], {}, first=True)
    assert listings.too_many_vanished(site.pool, task_id=site.task, index_id=site.index.id)
    assert end(hold) == (CLOSED + BESIDE if hold else 0)
    assert len(waiting(site)) == (0 if hold else CLOSED + BESIDE)


@pytest.mark.parametrize("keys", [None, [b"closed", b"0.md", b"1.md"]])
@pytest.mark.parametrize(("never_live", "is_held"), [(4, True), (5, False)])
def test_files_that_were_never_live_are_removed_and_do_not_count(
    listing: Any, keys: list[bytes] | None, never_live: int, is_held: bool
) -> None:
    site, record, end = listing
    failed = [f"closed/{number}.md".encode() for number in range(never_live)]
    site.do(
        "UPDATE search_index_file SET status = 'failed', live_fingerprint = NULL"
        " WHERE key = ANY (%s) AND index_id = %s",
        *(failed, site.index.id),
    )
    record([], {}, first=True, keys=keys)
    asked: dict[str, Any] = {"task_id": site.task, "index_id": site.index.id}
    assert listings.too_many_vanished(site.pool, **asked) is is_held
    assert not {*listings.read_vanished(site.pool, task_id=site.task)} & {*failed}
    assert end(True, keys=keys) == (CLOSED + BESIDE - never_live if is_held else 0)
    assert len(waiting(site)) == (never_live if is_held else CLOSED + BESIDE)


@pytest.mark.parametrize(("left_out", "held"), [(4, CLOSED + BESIDE), (5, 0)])
def test_a_rule_that_leaves_out_most_of_what_is_gone_holds_nothing(listing: Any, left_out: int, held: int) -> None:
    _, record, end = listing
    record([], {}, first=True)
    assert end(True, left_out=left_out) == held


@pytest.mark.parametrize("keys", [None, [b"closed", b"0.md", b"1.md"]])
@pytest.mark.parametrize(
    ("seen", "never_live", "left_out", "is_held"),
    [
        (23, 0, 0, True),
        (24, 0, 0, False),
        # of the live files only
        (23, 10, 0, True),
        # of those that no rule leaves out
        (19, 0, 4, True),
        (20, 0, 4, False),
    ],
)
def test_removals_are_held_if_they_are_more_than_half_of_the_live_files_that_rules_allow(
    listing: Any, keys: list[bytes] | None, seen: int, never_live: int, left_out: int, is_held: bool
) -> None:
    site, record, end = listing
    ((gone,),) = site.do("SELECT id FROM search_index_file WHERE index_id = %s LIMIT 1", site.index.id)
    for number in range(seen + never_live):
        changed = {} if number < seen else {"status": "failed", "live_fingerprint": None}
        file = site.copy_row("search_index_file", gone, key=f"\\x{uuid4().hex}", path=f"seen/{number}.md", **changed)
        site.do("INSERT INTO search_index_listing (task_id, file_id) VALUES (%s, %s)", site.task, file)
    record([], {}, first=True, keys=keys)
    assert end(True, left_out=left_out, keys=keys) == (CLOSED + BESIDE if is_held else 0)
    assert len(waiting(site)) == (0 if is_held else CLOSED + BESIDE)


@pytest.mark.parametrize(("hold", "warning"), [(True, "held"), (False, "Waiting.")])
def test_what_a_task_waits_for_is_told_unless_removals_are_held(listing: Any, hold: bool, warning: str) -> None:
    site, record, end = listing
    record([], {}, first=True)
    task_notes.warn(site.pool, site.task, "Waiting.")
    end(hold)
    assert site.do("SELECT warning FROM search_index_task WHERE id = %s", site.task) == [(warning,)]


def test_what_is_ignored_is_counted_once(listing: Any) -> None:
    site, record, _ = listing
    record([], {"rule": 1, "other": 1}, first=True)
    # a restarted listing counts from zero
    record([], {"rule": 1}, first=True)
    record([], {"rule": 2}, first=False)
    assert site.do("SELECT ignored FROM search_index_task WHERE id = %s", site.task) == [({"rule": 3},)]


@pytest.mark.parametrize(("known", "gone", "held"), [(39, 20, True), (40, 20, False), (37, 19, False), (41, 21, True)])
def test_half_of_the_files_are_too_many(known: int, gone: int, held: bool) -> None:
    assert listings._too_many(gone, known) is held


def test_a_file_that_changed_since_its_listing_is_unseen_and_not_open(site: Site) -> None:
    columns = "key, path, id_path, node_id, size_bytes, stamp"
    query = f"SELECT {columns} FROM search_index_file WHERE index_id = %s ORDER BY path"
    entries = [SourceEntry(*row) for row in site.do(query, site.index.id)]
    entries = [replace(entry, key=bytes(entry.key), stamp="s") for entry in entries]
    site.do("UPDATE search_index_file SET stamp = 's' WHERE index_id = %s", site.index.id)
    listed = [*entries[1:], replace(entries[0], stamp="another"), replace(entries[0], key=b"new", path="new")]
    for is_open in (True, False):
        if not is_open:
            site.do("UPDATE search_index_file SET status = 'indexed' WHERE index_id = %s", site.index.id)
        for wanted in (True, False):
            found = freshness.compare(site.pool, site.index.id, listed, [wanted] * len(listed))
            expected = ListingComparison(1 + wanted, (len(entries) - 1) * is_open, len(entries))
            assert found == expected


def test_the_rows_show_the_whole_folder_once_the_newest_run_has_listed_it(site: Site) -> None:
    assert file_texts.is_listed(site.pool, site.index.id)
    site.finish_all()
    site.start()
    assert not file_texts.is_listed(site.pool, site.index.id)
    site.list_folder()
    assert file_texts.is_listed(site.pool, site.index.id)


def test_a_folder_is_small_only_once_all_of_it_is_listed(resources: Resources) -> None:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    write(folder, 1, "one of very many")
    site = Site(resources, folder)
    site.list_folder()
    small: dict[str, Any] = {"preferred": site.task, "only_small": True}
    listing = "UPDATE search_index_task SET listing = %s WHERE id = %s"
    site.do(listing, True, site.task)
    assert turns.fairest(site.pool, preferred=site.task) == site.task
    assert turns.fairest(site.pool, **small) != site.task
    site.do(listing, False, site.task)
    assert turns.fairest(site.pool, **small) == site.task


@pytest.mark.parametrize(
    ("page_size", "expected"), [(2, StaleFiles(0, 0, 2, complete=False)), (9, StaleFiles(0, 0, 4, complete=True))]
)
def test_a_comparison_is_complete_once_its_last_page_is_compared(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, page_size: int, expected: StaleFiles
) -> None:
    site = listed_site(resources, 4)
    monkeypatch.setattr(refresh, "COMPARE_SECONDS", -1.0)
    monkeypatch.setattr(LocalFolder.__init__, "__kwdefaults__", {"closed": None, "page_size": page_size})
    assert refresh.compare(resources, site.index, Disconnect()) == expected


@pytest.mark.parametrize("how", ["if_stale", "wait"])
def test_a_folder_that_is_slow_to_compare_is_compared_in_part(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, how: Refresh
) -> None:
    site = listed_site(resources, 4)
    site.finish_all()
    monkeypatch.setattr(refresh, "COMPARE_SECONDS", -1.0)
    monkeypatch.setattr(LocalFolder.__init__, "__kwdefaults__", {"closed": None, "page_size": 2})
    monkeypatch.setattr(refresh, "_wait_for_task", lambda *_: [])
    # no worker is to take the run
    monkeypatch.setattr("worker.app.post", lambda _: None)

    def asked() -> tuple[int | None, list[str]]:
        found = refresh.refresh(resources, site.tool, site.index, how, disconnect=Disconnect())
        return found.stale_files, [note.code for note in found.notes]

    # what is missing from the other pages cannot be known
    (site.folder / "3.md").unlink()
    assert asked() == (0, ["partly_compared"])
    runs = "SELECT count(*) FROM search_index_task WHERE index_id = %s"
    assert site.do(runs, site.index.id) == [(2 if how == "wait" else 1,)]
    (site.folder / "0.md").write_text("Another text.")
    assert asked() == (1, ["reindexing"] * (how == "if_stale") + ["partly_compared"])
