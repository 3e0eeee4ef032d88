"""The order of writes: wherever a process ends, no vector is unknown and no live text lacks its vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from schemas.errors import LeaseLost, StoreUnavailable
from tests.integration.database import rows_scanned
from tests.integration.shelf import AroundStore, Write
from tests.integration.steps.site import FILES, Killed, Site, drafts_of, embedded, new_ids, write
from worker.index.commit import finish
from worker.index.pipeline import index_files
from worker.index.run import IndexRun
from worker.index.write import rows_of, upsert
from worker.index.write import write as write_chunks
from worker.state.index import chunks, drift, files


@dataclass
class Store(AroundStore):
    """A store that runs `then` before or after a write of the given kind, and records the writes."""

    kind: str
    then: Callable[[], None]
    after: bool
    kinds: list[str] = field(default_factory=list)

    def take(self, write: Write) -> None:
        kind = "upsert" if write.upserts else "patch" if write.patches else "delete"
        if kind == self.kind and not self.after:
            self.then()
        self.store.write(*write)
        self.kinds.append(kind)
        if kind == self.kind and self.after:
            self.then()


def with_store(run: IndexRun, kind: str, then: Callable[[], None], *, after: bool) -> tuple[IndexRun, Store]:
    store = Store(run.store, kind, then, after)
    return replace(run, store=store), store


def nothing() -> None:
    """Does nothing: no fault."""


@pytest.mark.parametrize("held", ["draft", "upsert"])
def test_a_lease_that_ends_between_two_writes_ends_the_work(
    site: Site, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    run = site.worker()
    run, store = with_store(run, held, run.lease._lost.set, after=True)
    if held == "draft":
        draft = chunks.draft

        def then_lost(*given: Any) -> None:
            draft(*given)
            run.lease._lost.set()

        monkeypatch.setattr(chunks, "draft", then_lost)
    with pytest.raises(LeaseLost):
        index_files(run, site.claim(run))
    assert store.kinds == ([] if held == "draft" else ["upsert"])
    assert site.chunks(live=True) == set()
    assert set(site.outcomes().values()) == {"indexing"}


def test_a_lease_that_ended_sends_no_patch(site: Site) -> None:
    site.finish_all()
    (site.folder / "1.md").write_text("# File 1\n\nAnother text altogether.\n")
    site.again()
    run = site.worker()
    site.do(
        "UPDATE search_index_file SET live_path = 'old.md', status = 'pending' WHERE index_id = %s AND path = '0.md'",
        run.index.id,
    )
    # the patch of the moved file follows the rows of the edited one
    run, store = with_store(run, "upsert", run.lease._lost.set, after=True)
    with pytest.raises(LeaseLost):
        index_files(run, site.claim(run))
    assert store.kinds == ["upsert"]


# --- a process that ends between two writes


def die() -> None:
    raise Killed


def edit(site: Site) -> None:
    """Edit one file, move one, delete one, and add one."""
    write(site.folder, 0, "Afterwards this file tells of pears.")
    (site.folder / "1.md").rename(site.folder / "moved.md")
    (site.folder / "2.md").unlink()
    write(site.folder, FILES, "A new file tells of plums.")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("is_first", "kind"), [(True, "upsert"), (False, "upsert"), (False, "delete")])
@pytest.mark.parametrize("cancelled", [True, False])
def test_a_process_that_ends_beside_a_write_leaves_nothing_unknown(
    site: Site, is_first: bool, kind: str, after: bool, cancelled: bool
) -> None:
    if not is_first:
        site.finish_all()
        edit(site)
        site.again()
    run = site.worker()
    dying, store = with_store(run, kind, die, after=after)
    with pytest.raises(Killed):
        index_files(dying, site.claim(run))
    assert (kind in store.kinds) is after
    site.prove()
    site.expire(run)
    if cancelled:
        live = site.chunks(live=True)
        site.cancel()
        # live text stays searchable
        assert site.chunks(live=True) == live
        site.prove()
        site.again()
    site.finish_all()
    site.prove()
    assert site.drafts() == set()
    assert drift.unknown(site.pool, site.index.id, list(site.vectors())) == []


def test_vectors_that_nothing_refers_to_go_at_once(site: Site) -> None:
    site.finish_all()
    before = site.vectors()
    edit(site)
    site.again()
    run = site.worker()
    run, store = with_store(run, "", nothing, after=True)
    index_files(run, site.claim(run))
    assert store.kinds.count("delete") == 1
    assert site.vectors() == site.chunks(live=True)
    gone = before - site.vectors()
    assert gone
    # and again, once no late write can bring them back
    assert site.tombstones() == gone
    assert site.do("SELECT id FROM chunk_tombstone WHERE index_id = %s AND deleted_at IS NULL", site.index.id) == []


def test_a_delete_that_failed_is_not_taken_for_done(site: Site) -> None:
    site.finish_all()
    write(site.folder, 0, "Afterwards this file tells of pears.")
    site.again()
    run = site.worker()

    def fail_() -> None:
        raise StoreUnavailable("away")

    run, _ = with_store(run, "delete", fail_, after=False)
    with pytest.raises(StoreUnavailable):
        index_files(run, site.claim(run))
    assert site.do("SELECT id FROM chunk_tombstone WHERE index_id = %s AND deleted_at IS NOT NULL", site.index.id) == []
    assert len(site.tombstones()) == len(site.vectors() - site.chunks(live=True)) > 0


# --- chunks that have no row yet


def test_the_rows_of_new_chunks_are_written_once_when_their_file_is_finished(site: Site) -> None:
    run = site.worker()
    made = embedded(site, run)
    written = write_chunks(run, made)
    assert site.drafts() == site.vectors() == new_ids(made)
    assert site.do("SELECT id FROM chunk WHERE index_id = %s", site.index.id) == []
    finish(run, written)
    assert (site.chunks(live=True), site.drafts(), site.tombstones()) == (new_ids(made), set(), set())


def test_what_an_earlier_attempt_wrote_of_another_text_is_deleted(site: Site) -> None:
    run = site.worker()
    made = embedded(site, run)
    write_chunks(run, made)
    files.release(site.pool, run.lease.owner)
    write(site.folder, 0, "Now this file tells of pears.")
    run = site.worker()
    other = embedded(site, run)
    written = write_chunks(run, other)
    gone = new_ids(made) - new_ids(other)
    assert (len(gone), site.drafts()) == (1, gone | new_ids(other))
    finish(run, written)
    assert (site.tombstones(), site.drafts()) == (gone, set())
    site.prove()


def test_rows_that_a_worker_of_the_previous_release_wrote_are_replaced(site: Site) -> None:
    run = site.worker()
    made = embedded(site, run)
    written = write_chunks(run, made)
    with site.pool.connection() as connection:
        chunks.write_live(connection, site.index.id, rows_of(run, made))
    site.do("UPDATE chunk SET live = false, title = 'old' WHERE index_id = %s", site.index.id)
    finish(run, written)
    assert site.do("SELECT id FROM chunk WHERE index_id = %s AND title = 'old'", site.index.id) == []
    assert (site.chunks(live=True), site.tombstones()) == (new_ids(made), set())
    site.prove()


# --- rows beyond one write


@pytest.mark.parametrize("rows", [FILES - 1, FILES, FILES + 1, 1])
def test_every_row_is_written_however_many_a_write_takes(site: Site, rows: int) -> None:
    run = site.worker()
    run, store = with_store(run, "", nothing, after=True)
    made = embedded(site, run)
    assert len(new_ids(made)) == FILES
    chunks.draft(site.pool, run.lease.owner, run.epoch, drafts_of(made))
    upsert(run, made, rows=rows)
    assert len(store.kinds) == -(-FILES // rows)
    assert site.vectors() == new_ids(made)


#: The tables that hold the rows of all files.
TABLES = ("search_index_file", "chunk", "symbol", "symbol_use")


def test_files_are_finished_without_reading_whole_tables(site: Site) -> None:
    """The tables are so small here that the planner would read all of them."""
    site.finish_all()
    code = site.folder / "0.py"
    code.write_text("import os\n\n\ndef one() -> str:\n    return os.getcwd()\n")
    site.again()
    site.finish_all()
    code.write_text(code.read_text().replace("one", "two"))
    site.again()
    run = site.worker()
    written = write_chunks(run, embedded(site, run))
    with site.pool.connection() as connection:
        connection.execute(f"ANALYZE {', '.join(TABLES)}".encode())
    before = rows_scanned(site.pool, *TABLES)
    finished = finish(run, written).files
    assert finished
    assert rows_scanned(site.pool, *TABLES) == before
