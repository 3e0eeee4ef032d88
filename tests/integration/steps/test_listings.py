"""What a listing does about files that it did not see; directly on the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.steps.site import Site, write
from worker.app import SMALL_TASK
from worker.resources import Resources
from worker.state.index import files, tasks

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
    site.do("UPDATE search_index_file SET status = 'indexed' WHERE index_id = %s", site.index.id)
    assert site.refresh()
    task, owner = site.start(), uuid4()
    plan = tasks.begin_plan(site.pool, task, owner)
    assert plan is not None
    values: dict[str, Any] = {"task_id": task, "index_id": plan.index_id, "owner": owner}

    def record(unlisted: list[bytes], ignored: dict[str, int], *, first: bool) -> None:
        more: dict[str, Any] = {
            "listed": [],
            "cursor": "1",
            "unlisted": unlisted,
            "ignored": ignored,
            "matched": [],
            "first": first,
        }
        files.record_page(site.pool, **values, **more)

    def end(hold: bool) -> int:
        return files.end_listing(
            site.pool, **values, hold=hold, left_out=0, warning="held", listing_warning=None, keys=None
        )

    return site, record, end


def waiting(site: Site) -> set[str]:
    return {path for path, status in site.outcomes().items() if status == "pending"}


@pytest.mark.parametrize("hold", [False, True])
def test_what_could_not_be_listed_is_not_gone(listing: Any, hold: bool) -> None:
    site, record, end = listing
    record([b"closed/"], {}, first=True)
    # a later page knows nothing of the directories of an earlier one
    record([], {}, first=False)
    assert not files.too_many_vanished(site.pool, task_id=site.task, index_id=site.index.id)
    gone = list(files.vanished(site.pool, task_id=site.task, index_id=site.index.id))
    assert gone == [f"{number}.md".encode() for number in range(BESIDE)]
    assert end(hold) == 0
    assert waiting(site) == {f"{number}.md" for number in range(BESIDE)}


@pytest.mark.parametrize("hold", [False, True])
def test_most_files_gone_at_once_are_held_where_that_is_wanted(listing: Any, hold: bool) -> None:
    site, record, end = listing
    record([], {}, first=True)
    assert files.too_many_vanished(site.pool, task_id=site.task, index_id=site.index.id)
    assert end(hold) == (CLOSED + BESIDE if hold else 0)
    assert len(waiting(site)) == (0 if hold else CLOSED + BESIDE)


def test_what_is_ignored_is_counted_once(listing: Any) -> None:
    site, record, _ = listing
    record([], {"rule": 1, "other": 1}, first=True)
    # a restarted listing counts from zero
    record([], {"rule": 1}, first=True)
    record([], {"rule": 2}, first=False)
    assert site.do("SELECT ignored FROM search_index_task WHERE id = %s", site.task) == [({"rule": 3},)]


@pytest.mark.parametrize(("known", "gone", "held"), [(39, 20, True), (40, 20, False), (37, 19, False), (41, 21, True)])
def test_half_of_the_files_are_too_many(known: int, gone: int, held: bool) -> None:
    assert files._too_many(gone, known) is held


def test_a_folder_is_small_only_once_all_of_it_is_listed(resources: Resources) -> None:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    write(folder, 1, "one of very many")
    site = Site(resources, folder)
    site.list_folder()
    small: dict[str, Any] = {"preferred": site.task, "most_files": SMALL_TASK}
    listing = "UPDATE search_index_task SET listing = %s WHERE id = %s"
    site.do(listing, True, site.task)
    assert files.fairest(site.pool, preferred=site.task) == site.task
    assert files.fairest(site.pool, **small) != site.task
    site.do(listing, False, site.task)
    assert files.fairest(site.pool, **small) == site.task
