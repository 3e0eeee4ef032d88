"""Claims have numbers: the draft or patch of an earlier claim never replaces that of a later one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.integration.shelf import Late, Shelf, both_stores, three_files
from worker.index.commit import commit, outcome
from worker.index.pipeline import index_files
from worker.index.write import write
from worker.resources import Resources
from worker.state.index import files, tasks


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    with both_stores(tmp_path_factory.mktemp("generations"), database_url) as made:
        yield made


@pytest.fixture(params=["lancedb-store", "turbopuffer-postgres"])
def shelf(request: pytest.FixtureRequest, resources: Resources) -> Shelf:
    """Three files that are not listed yet."""
    return three_files(resources, request.param)


def test_a_draft_of_an_earlier_claim_by_the_same_owner_finishes_nothing(shelf: Shelf) -> None:
    owner, lister = uuid4(), uuid4()
    shelf.list_page(lister)
    run = shelf.run(owner)
    old = shelf.embedded(run)
    write(run, old)
    # edited, moved, listed again and claimed again by the same slice
    shelf.edit("1", "# File 1\n\nFile 1 tells of pears.\n")
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    (claim,) = shelf.claim(run)
    earlier = {made.claim.id: made.claim.generation for made in old}
    assert claim.generation > max(earlier.values())
    with shelf.pool.connection() as connection:
        files.hold_epoch(connection, run.index.id, run.epoch)
        finished = files.finish(connection, owner, [outcome(made) for made in old])
    assert finished == earlier.keys() - {claim.id}
    assert shelf.do("SELECT status FROM search_index_file WHERE id = %s", claim.id) == [("indexing",)]


def test_a_draft_that_waits_for_its_request_is_dropped_when_its_file_is_listed_again(shelf: Shelf) -> None:
    lister = uuid4()
    shelf.list_page(lister)
    run = shelf.run()
    waiting = shelf.embedded(run)
    shelf.edit("1", "# File 1\n\nFile 1 tells of pears.\n")
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    index_files(run, shelf.claim(run), waiting)
    assert shelf.texts() == {path: text.strip() for path, text in shelf.files.values()}
    assert shelf.vectors() == shelf.live()


def test_a_file_that_is_listed_again_just_before_it_is_written_costs_the_others_nothing(shelf: Shelf) -> None:
    lister = uuid4()
    shelf.list_page(lister)
    run = shelf.run()
    made = shelf.embedded(run)
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    commit(run, made)
    assert sorted(shelf.texts()) == ["0.md", "2.md"]
    index_files(run, shelf.claim(run))
    assert sorted(shelf.texts()) == ["0.md", "2.md", "moved/1.md"]
    assert shelf.vectors() == shelf.live()


def stopped_over_a_move(shelf: Shelf, path: str) -> Late:
    """A worker that moves a file is suspended while it patches the store. Its task is cancelled meanwhile."""
    late = Late(shelf.store)
    shelf.index_all()
    shelf.move("1", path)
    shelf.start()
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    write(run, shelf.embedded(run))
    assert len(late.waiting) == 1
    shelf.cancel()
    return late


@pytest.mark.parametrize("after", [True, False])
def test_a_late_patch_does_not_replace_that_of_a_later_claim(shelf: Shelf, after: bool) -> None:
    late = stopped_over_a_move(shelf, "a/1.md")
    if not after:
        late.arrive()
    shelf.move("1", "b/1.md")
    shelf.start()
    shelf.index_all()
    late.arrive()
    assert (shelf.at("a/1.md"), len(shelf.at("b/1.md"))) == (set(), 1)
    assert shelf.live() == shelf.vectors()


@pytest.mark.parametrize("after", [True, False])
def test_a_file_that_moved_back_is_where_it_was_whatever_arrives_late(shelf: Shelf, after: bool) -> None:
    late = stopped_over_a_move(shelf, "a/1.md")
    if not after:
        late.arrive()
    shelf.move("1", "1.md")
    shelf.start()
    shelf.index_all()
    late.arrive()
    assert (shelf.at("a/1.md"), len(shelf.at("1.md"))) == (set(), 1)
    assert shelf.do("SELECT id FROM search_index_file WHERE index_id = %s AND patch_pending", shelf.index.id) == []


def test_a_late_upsert_does_not_take_a_row_back_to_where_its_file_was(shelf: Shelf) -> None:
    late = Late(shelf.store)
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    write(run, shelf.embedded(run))
    shelf.expire(run)
    # the same epoch, and so the same ids
    other = shelf.run()
    index_files(other, list(shelf.claim(other)))
    assert {row.id for write in late.waiting for row in write[2]} == shelf.live()
    assert tasks.refresh(shelf.pool, shelf.task, shelf.index.id) is not None
    shelf.move("1", "b/1.md")
    shelf.start()
    shelf.index_all()
    late.arrive()
    assert (shelf.at("1.md"), len(shelf.at("b/1.md"))) == (set(), 1)


def test_a_row_written_under_an_old_path_has_an_id_of_its_own(shelf: Shelf) -> None:
    """Within one epoch, the file is listed again under another path while its first claim's upsert is in progress."""
    late, lister = Late(shelf.store), uuid4()
    shelf.list_page(lister)
    run = shelf.run(store=late)
    write(run, shelf.embedded(run))
    shelf.move("1", "b/1.md")
    shelf.list_page(lister, last=True)
    shelf.expire(run)
    other = shelf.run()
    index_files(other, list(shelf.claim(other)))
    late.arrive()
    assert len(shelf.at("b/1.md")) == 1
    stray = shelf.vectors() - shelf.live()
    assert stray == shelf.at("1.md")
    assert {id_ for (id_,) in shelf.do("SELECT id FROM chunk_tombstone WHERE index_id = %s", shelf.index.id)} == stray
