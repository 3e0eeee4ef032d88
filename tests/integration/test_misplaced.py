"""How fsck and the checks treat rows whose attributes differ from Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import numpy as np
import pytest

from tests.contract.stores import of_file
from tests.integration.shelf import Shelf, both_stores
from worker.index.commit import finish
from worker.index.write import write
from worker.resources import Resources
from worker.tokens.keywords import Keywords
from worker.upkeep import fsck
from worker.vectors import Leg, Patch, VectorRow


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    with both_stores(tmp_path_factory.mktemp("misplaced"), database_url) as made:
        yield made


@pytest.fixture(params=["lancedb-store", "turbopuffer-store", "turbopuffer-postgres"])
def shelf(request: pytest.FixtureRequest, resources: Resources) -> Shelf:
    """Six indexed files: one is code, and one was moved."""
    made = Shelf(resources, *request.param.split("-"))
    made.files = {str(n): (f"{n}.md", f"# File {n}\n\nFile {n} tells of apples.\n") for n in range(5)}
    made.files["code"] = ("inner/code.py", "class Bird:\n    def sing(self) -> int:\n        return 1\n")
    made.create()
    made.index_all()
    made.move("4", "moved/4.txt")
    made.start()
    made.index_all()
    return made


def differs(shelf: Shelf) -> dict[str, int]:
    return fsck.inspect(shelf.pool, shelf.store, shelf.index).drift


def spoil(shelf: Shelf, ids: set[UUID], generation: int) -> None:
    words = Keywords("wrong", "wrong")
    attributes = {**of_file("x"), "file_id_path": "/elsewhere"}
    patches = [Patch(id_, attributes, words, generation) for id_ in ids]
    shelf.store.write(shelf.index.namespace, 8, patches=patches)


def latest(shelf: Shelf) -> int:
    ((generation,),) = shelf.do("SELECT last_value FROM claim_generation")
    return int(generation)


def test_what_the_pipeline_wrote_and_moved_is_in_its_place(shelf: Shelf) -> None:
    assert differs(shelf) == {}


# after a failover, a standby may have lost claims whose patches are in the store
@pytest.mark.parametrize("ahead", [0, 500])
def test_rows_in_a_wrong_place_are_told_and_written_anew(shelf: Shelf, ahead: int) -> None:
    wrong = set(sorted(shelf.live())[::2])
    spoil(shelf, wrong, latest(shelf) + ahead)
    assert differs(shelf) == {"misplaced": len(wrong)}
    pages = [set(ids) for ids in fsck.misplaced(shelf.pool, shelf.store, shelf.index, 2)]
    assert set().union(*pages) == wrong
    mended = fsck.repair(shelf.pool, shelf.store, shelf.index)
    assert (mended.patched, mended.task_id, differs(shelf)) == (len(wrong), None, {})
    if shelf.store.has_keywords:
        legs = [Leg(9, keywords="wrong"), Leg(9, keywords="apples")]
        assert [len(found) for found in shelf.store.search(shelf.index.namespace, legs)] == [0, 5]
    # a later claim has a greater number
    shelf.move("1", "b/1.md")
    shelf.start()
    shelf.index_all()
    assert (len(shelf.at("b/1.md")), differs(shelf)) == (1, {})


def test_a_file_that_is_being_moved_is_in_no_wrong_place(shelf: Shelf) -> None:
    shelf.move("1", "b/1.md")
    shelf.start()
    shelf.list_page(uuid4(), last=True)
    run = shelf.run()
    drafts = shelf.embedded(run)
    write(run, drafts)
    assert len(shelf.at("b/1.md")) == 1
    assert "misplaced" not in differs(shelf)
    finish(run, drafts)
    assert "misplaced" not in differs(shelf)


def test_checks_go_through_all_ids_in_turn(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsck, "SAMPLE", 2)
    live = sorted(shelf.live())
    strays = {UUID(int=0), UUID(int=2**128 - 1), uuid4()}
    rows = [VectorRow(id_, np.ones(8, dtype=np.float32), {}, Keywords("stray", "stray")) for id_ in strays]
    shelf.store.write(shelf.index.namespace, 8, upserts=rows)
    spoil(shelf, {live[0], live[-1]}, latest(shelf))
    assert differs(shelf) == {"stray": 3, "misplaced": 2}
    checks = 0
    while differs(shelf):
        assert fsck.check(shelf.pool, shelf.store, shelf.index) is None
        checks += 1
        assert checks <= (len(live) + len(strays)) // 2 + 1
    assert checks > 1
    # it restarts after the end: the lost id is the last one, whose turn has just passed
    for _ in range(2):
        fsck.check(shelf.pool, shelf.store, shelf.index)
    shelf.store.write(shelf.index.namespace, 8, deletes=[live[-1]])
    started = [fsck.check(shelf.pool, shelf.store, shelf.index) for _ in range((len(live) + 1) // 2)]
    assert any(started)
