"""Claims have numbers: what an earlier claim drafted or patched never replaces what a later one did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.shelf import Shelf
from worker import pipeline
from worker.draft import outcome
from worker.resources import Resources
from worker.settings import Settings
from worker.state import files


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as server:
        yield server


@pytest.fixture(scope="module")
def resources(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, fake: FakeTurbopuffer
) -> Iterator[Resources]:
    home = tmp_path_factory.mktemp("generations")
    env = {name.lower(): value for name, value in fake.env.items()}
    made = Resources(Settings.model_validate({"foldex_home": home, "database_url": database_url, **env}))
    with closing(made.pool):
        yield made


@pytest.fixture(params=["lancedb-store", "turbopuffer-postgres"])
def shelf(request: pytest.FixtureRequest, resources: Resources) -> Shelf:
    """Three files that are not listed yet."""
    made = Shelf(resources, *request.param.split("-"))
    made.files = {str(n): (f"{n}.md", f"# File {n}\n\nFile {n} tells of apples.\n") for n in range(3)}
    made.create()
    return made


def test_a_draft_of_an_earlier_claim_by_the_same_owner_finishes_nothing(shelf: Shelf) -> None:
    owner, lister = uuid4(), uuid4()
    shelf.list_page(lister)
    run = shelf.run(owner)
    old = shelf.drafts(run)
    pipeline.write(run, old)
    # edited, moved, listed again and claimed again by the same slice
    shelf.edit("1", "# File 1\n\nFile 1 tells of pears.\n")
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    (claim,) = shelf.claim(run)
    earlier = {made.claim.id: made.claim.generation for made in old}
    assert claim.generation > max(earlier.values())
    with shelf.pool.connection() as connection:
        files.hold_index(connection, run.index.id, run.epoch)
        finished = files.finish(connection, owner, [outcome(made) for made in old])
    assert finished == earlier.keys() - {claim.id}
    assert shelf.do("SELECT status FROM search_index_file WHERE id = %s", claim.id) == [("indexing",)]


def test_a_draft_that_waits_for_its_request_is_dropped_when_its_file_is_listed_again(shelf: Shelf) -> None:
    lister = uuid4()
    shelf.list_page(lister)
    run = shelf.run()
    waiting = shelf.drafts(run)
    shelf.edit("1", "# File 1\n\nFile 1 tells of pears.\n")
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    pipeline.index_files(run, shelf.claim(run), waiting)
    assert shelf.texts() == {path: text.strip() for path, text in shelf.files.values()}
    assert shelf.vectors() == shelf.live()


def test_a_file_that_is_listed_again_just_before_it_is_written_costs_the_others_nothing(shelf: Shelf) -> None:
    lister = uuid4()
    shelf.list_page(lister)
    run = shelf.run()
    made = shelf.drafts(run)
    shelf.move("1", "moved/1.md")
    shelf.list_page(lister, "1", last=True)
    pipeline._record(run, made)
    assert sorted(shelf.texts()) == ["0.md", "2.md"]
    pipeline.index_files(run, shelf.claim(run))
    assert sorted(shelf.texts()) == ["0.md", "2.md", "moved/1.md"]
    assert shelf.vectors() == shelf.live()


def test_a_claim_of_the_release_before_is_finished_by_itself_alone(shelf: Shelf) -> None:
    """It leaves the generation as it is; the owner tells the two apart."""
    shelf.list_page(uuid4(), last=True)
    ours = shelf.run()
    old = shelf.drafts(ours)
    theirs = uuid4()
    shelf.do("UPDATE search_index_file SET lease_owner = %s WHERE index_id = %s", theirs, ours.index.id)
    with shelf.pool.connection() as connection:
        assert files.finish(connection, ours.lease.owner, [outcome(made) for made in old]) == set()
        assert len(files.finish(connection, theirs, [outcome(made) for made in old])) == 3
