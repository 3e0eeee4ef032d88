"""The rows after the end of a file's work, and after the end of a task."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest

from api.http.disconnect import Disconnect
from api.search.pipeline import answer_query
from schemas.content.document import FileContent
from schemas.errors import FileError, FolderGone, SourceUnavailable
from schemas.queries.search import Query
from schemas.reason import FileStatus, Reason
from tests.integration.steps.site import FILES, Site, embedded, write
from worker.index.commit import finish
from worker.index.embed import embed, recall_vectors
from worker.index.file_states import EmbeddedFile, FailedFile, FileFacts, RemovedFile, failed
from worker.index.pipeline import index_files
from worker.index.prepare import prepare
from worker.index.run import IndexRun
from worker.index.write import write as write_rows
from worker.sources import Source
from worker.state.index import drift, file_lookup, files, tasks, tool_actions
from worker.state.index.files import FileOutcome

#: A trusted time of a file: it differs from the time of the listing.
LONG_AGO = 1_000_000_000


@pytest.fixture
def settled(site: Site) -> Site:
    """An indexed folder whose files are old, so that unchanged files are not read again."""
    for number in range(FILES):
        os.utime(site.folder / f"{number}.md", (LONG_AGO, LONG_AGO))
    site.finish_all()
    site.again()
    site.finish_all()
    assert "" not in {stamp for (stamp,) in column(site, "stamp")}
    return site


def column(site: Site, names: str) -> list[tuple[Any, ...]]:
    return list(site.do(f"SELECT {names} FROM search_index_file WHERE index_id = %s ORDER BY path", site.index.id))


def edit(site: Site, text: str) -> None:
    """Edit the first file, with a trusted time."""
    write(site.folder, 0, text)
    os.utime(site.folder / "0.md", (LONG_AGO + 1, LONG_AGO + 1))


def work_on(site: Site) -> tuple[IndexRun, EmbeddedFile]:
    """A worker with the only open file, embedded and half written."""
    run = site.worker()
    (made,) = embedded(site, run)
    write_rows(run, [made])
    return run, made


def fail(made: EmbeddedFile) -> EmbeddedFile:
    return replace(made, state=failed(made.state, FileError(Reason.STORE_REFUSED, "The store refused a row of it.")))


def status(site: Site) -> tuple[Any, ...]:
    columns = "status, error_code, indexed_files, failed_files, total_chunks"
    return tuple(site.do(f"SELECT {columns} FROM search_index_task WHERE id = %s", site.task)[0])


# --- files


def test_a_failed_update_keeps_the_old_text(settled: Site) -> None:
    live = settled.chunks(live=True)
    edit(settled, "Afterwards this file tells of pears.")
    settled.again()
    run, made = work_on(settled)
    finish(run, [fail(made)])
    assert settled.refresh()
    assert settled.chunks(live=True) == live
    assert settled.tombstones() == {chunk.id for chunk in made.state.new}
    assert column(settled, "status, live_chunks, live_path")[0] == ("failed", 1, "0.md")
    assert status(settled) == ("ready", None, FILES - 1, 1, FILES)
    answer = answer_query(
        settled.resources, settled.tool, settled.index, Query(query="apples", mode="vector"), disconnect=Disconnect()
    )
    assert {(hit.file_path, hit.stale, hit.total_chunks) for hit in answer.results if hit.file_path == "0.md"} == {
        ("0.md", True, 1)
    }


@pytest.mark.parametrize("fails", [True, False])
def test_a_patch_that_was_sent_may_arrive_until_the_file_is_indexed(settled: Site, fails: bool) -> None:
    edit(settled, "Afterwards this file tells of pears.")
    settled.again()
    settled.do(
        "UPDATE search_index_file SET patch_pending = true WHERE index_id = %s AND path = '0.md'", settled.index.id
    )
    run, made = work_on(settled)
    assert column(settled, "patch_pending")[0] == (True,)
    finish(run, [fail(made) if fails else made])
    assert column(settled, "patch_pending")[0] == (fails,)


def test_an_outcome_without_a_stamp_has_the_file_read_again(settled: Site) -> None:
    """The file was too young to be trusted when it was read."""
    edit(settled, "Afterwards this file tells of pears.")
    settled.again()
    run = settled.worker()
    (claim,) = settled.claim(run)
    with settled.pool.connection() as connection:
        files.finish(connection, run.lease.owner, [FileOutcome(claim.id, claim.generation, FileStatus.SKIPPED)])
    assert settled.refresh()
    settled.again()
    assert settled.outcomes()["0.md"] == "pending"


@pytest.mark.parametrize(
    ("since", "holds"),
    [("id = id", True), ("generation = generation + 1", False), ("lease_owner = gen_random_uuid()", False)],
)
def test_an_outcome_counts_only_while_its_own_claim_holds(site: Site, since: str, holds: bool) -> None:
    """The file may have been listed and claimed again by the same worker, or by another one."""
    run = site.worker()
    (first, *_) = site.claim(run)
    site.do(f"UPDATE search_index_file SET {since} WHERE id = %s", first.id)
    assert files.still_claimed(site.pool, run.lease.owner, [first]) == ({first.id} if holds else set())
    with site.pool.connection() as connection:
        made = FileOutcome(first.id, first.generation, FileStatus.SKIPPED)
        assert files.finish(connection, run.lease.owner, [made]) == ({first.id} if holds else set())
    assert site.outcomes()[first.path] == ("skipped" if holds else "indexing")


def test_what_an_attempt_paid_is_added_to_what_the_one_before_paid(site: Site) -> None:
    run = site.worker()
    (first, *_) = site.claim(run)
    files.add_paid(site.pool, run.epoch, [(first.id, 2, 20)])
    outcome = FileOutcome(
        first.id, first.generation, FileStatus.INDEXED, chunks=5, reused_chunks=4, embedded_chunks=1, tokens=10
    )
    with site.pool.connection() as connection:
        assert files.finish(connection, run.lease.owner, [outcome]) == {first.id}
    paid = "SELECT embedded_chunks, reused_chunks, tokens FROM search_index_file WHERE id = %s"
    assert site.do(paid, first.id) == [(3, 2, 30)]
    # another worker that held the file paid too, for what counted as found in the cache
    for chunks, recorded in ((1, (4, 1, 40)), (2, (6, 0, 60))):
        files.add_paid(site.pool, run.epoch, [(first.id, chunks, 10 * chunks)])
        assert site.do(paid, first.id) == [recorded]


def test_what_an_earlier_claim_paid_counts_for_its_own_task_only(site: Site) -> None:
    run = site.worker()
    (first,) = site.claim(run, 1)
    files.add_paid(site.pool, run.epoch, [(first.id, 2, 20)])
    paid = "SELECT embedded_chunks, tokens FROM search_index_file WHERE id = %s"
    files.release(site.pool, run.lease.owner)
    assert site.claim(run, 1)[0].id == first.id
    assert site.do(paid, first.id) == [(2, 20)]
    files.release(site.pool, run.lease.owner)
    site.do("UPDATE search_index_task SET status = 'error' WHERE id = %s", site.task)
    # a worker claims what is left before the folder is listed anew
    assert tasks.begin_plan(site.pool, site.start(), uuid4()) is not None
    assert first.id in {claim.id for claim in site.claim(site.worker())}
    assert site.do(paid, first.id) == [(0, 0)]


def test_what_was_paid_is_recorded_even_if_the_next_files_cannot_be_read(site: Site) -> None:
    class Away:
        """A source that does not answer."""

        def read(self, key: bytes, limit: int, listed: str, /) -> FileContent:
            raise SourceUnavailable("away")

    run = site.worker()
    waiting, _ = embed(run, recall_vectors(run, prepare(run, site.claim(run, 1))), more=False)
    with pytest.raises(SourceUnavailable):
        index_files(replace(run, source=cast("Source", Away())), site.claim(run, 1), waiting)
    paid = "SELECT embedded_chunks, tokens FROM search_index_file WHERE id = %s"
    assert site.do(paid, waiting[0].claim.id) == [waiting[0].paid]


def test_a_file_that_was_finished_is_suspect_no_more(site: Site) -> None:
    died = site.worker()
    assert len(site.claim(died)) == FILES
    site.expire(died)
    assert column(site, "suspect") == [(True,)] * FILES
    run = site.worker()
    for _ in range(FILES):
        (claim,) = site.claim(run)
        # a retry claims failed files again
        finish(run, [fail(EmbeddedFile(RemovedFile(claim)))])
    assert site.refresh()
    assert column(site, "suspect, crashes, parsing") == [(False, 0, 0)] * FILES
    assert retry(site) == FILES
    assert len(site.claim(site.worker())) == FILES


def test_the_chunks_of_an_edited_file_are_in_its_order(settled: Site) -> None:
    sections = [f"# Part {number}\n\n{f'Part {number} tells of fruit. ' * 12}\n\n" for number in range(4)]
    (settled.folder / "0.md").write_text("".join(sections[1:]))
    settled.again()
    settled.finish_all()
    kept = settled.chunks(live=True)
    (settled.folder / "0.md").write_text("".join(sections))
    settled.again()
    settled.finish_all()
    assert len(kept & settled.chunks(live=True)) >= len(sections) - 1
    order = (
        "SELECT chunk_index, start_line FROM chunk c JOIN search_index_file f ON f.id = c.file_id"
        " WHERE f.index_id = %s AND f.path = '0.md' AND c.live ORDER BY c.start_char"
    )
    found = settled.do(order, settled.index.id)
    assert [index for index, _ in found] == list(range(len(found)))
    assert len({line for _, line in found}) == len(found) >= len(sections)


def lose(site: Site) -> None:
    """Make the store lose a vector of the first file, and record it."""
    found = (
        "SELECT c.id FROM chunk c JOIN search_index_file f ON f.id = c.file_id"
        " WHERE f.index_id = %s AND f.path = '0.md' AND c.live"
    )
    ((lost,),) = site.do(found, site.index.id)
    index = site.index
    store = site.resources.store_of(index)
    store.write(index.namespace, index.settings.embedder.dimensions, deletes=[lost])
    drift.mark_lost(site.pool, index.id, [lost], None)
    assert lost in site.chunks(live=True) - site.vectors()


def test_a_lost_vector_of_an_edited_file_is_written_again(settled: Site) -> None:
    text = (settled.folder / "0.md").read_text()
    lose(settled)
    more = f"# More\n\n{'More of another fruit altogether. ' * 12}\n"
    (settled.folder / "0.md").write_text(f"{text}\n{more}")
    settled.again()
    settled.finish_all()
    assert len(settled.chunks(live=True)) > FILES
    settled.prove()


# --- tasks


@pytest.mark.parametrize(("failing", "ended"), [(1, "ready"), (FILES, "error")])
def test_a_task_ends_with_an_error_only_if_nothing_is_live(site: Site, failing: int, ended: str) -> None:
    run = site.worker()
    for made in embedded(site, run)[:failing]:
        finish(run, [fail(made)])
    files.release(site.pool, run.lease.owner)
    index_files(run, site.claim(run))
    assert site.refresh()
    code = "no_file_indexed" if ended == "error" else None
    assert status(site) == (ended, code, FILES - failing, failing, FILES - failing)


def retry(site: Site) -> int:
    """Retry what failed. Returns the number of files."""
    started = tool_actions.retry(site.pool, site.tool)
    if started is None:
        return 0
    assert not started.listing
    site.task = started.id
    return started.files


def test_a_retry_takes_up_what_failed_or_was_lost_and_nothing_else(settled: Site) -> None:
    assert retry(settled) == 0
    lose(settled)
    assert retry(settled) == 1
    settled.finish_all()
    settled.prove()
    edit(settled, "Afterwards this file tells of pears.")
    settled.again()
    run, made = work_on(settled)
    finish(run, [fail(made)])
    assert settled.refresh()
    assert retry(settled) == 1
    settled.finish_all()
    assert set(settled.outcomes().values()) == {"indexed"}


def test_a_retry_takes_up_what_a_cancel_left_and_what_the_listing_could_not_read(site: Site) -> None:
    failed = (
        "UPDATE search_index_file SET status = 'failed', listed_reason = 'unreadable' WHERE index_id = %s AND path = %s"
    )
    site.do(failed, site.index.id, "0.md")
    site.cancel()
    assert set(site.outcomes().values()) == {"failed", "pending"}
    assert retry(site) == len(site.outcomes())
    site.finish_all()
    assert set(site.outcomes().values()) == {"indexed"}


def test_a_retry_removes_a_file_that_vanished_before_the_task_was_cancelled(site: Site) -> None:
    site.cancel()
    (site.folder / "0.md").unlink()
    site.again()
    site.cancel()
    # a file of the same name that nobody has listed
    write(site.folder, 0, "It came back.")
    assert retry(site) == FILES
    site.finish_all()
    assert site.outcomes() == {"0.md": "removed", **dict.fromkeys(("1.md", "2.md", "3.md"), "indexed")}


def test_a_file_that_was_removed_is_not_removed_again(settled: Site) -> None:
    for number in range(2):
        (settled.folder / f"{number}.md").unlink()
        settled.again()
        settled.finish_all()
        removed = "SELECT removed_files, total_files FROM search_index_task WHERE id = %s"
        assert settled.do(removed, settled.task) == [(1, FILES - 1 - number)]


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("retried", [False, True])
def test_an_edit_whose_task_was_cancelled_is_indexed_by_the_next(settled: Site, claimed: bool, retried: bool) -> None:
    live = settled.chunks(live=True)
    edit(settled, "Afterwards this file tells of pears.")
    settled.again()
    if claimed:
        settled.claim(settled.worker())
    settled.cancel()
    assert settled.outcomes()["0.md"] == "indexed"
    assert settled.chunks(live=True) == live
    if retried:
        assert retry(settled) == 1
    else:
        settled.again()
    settled.finish_all()
    assert len(live - settled.chunks(live=True)) == 1


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_run_that_was_asked_for_meanwhile_follows_unless_all_is_cancelled(site: Site, cancelled: bool) -> None:
    assert tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) is None
    if cancelled:
        site.cancel()
    else:
        closed = tasks.fail(site.pool, site.task, site.index.id, FolderGone("it is gone"))
        assert closed is not None
        assert closed.next_task_id is not None
    open_ = "SELECT count(*) FROM search_index_task WHERE index_id = %s AND status IN ('pending', 'indexing')"
    assert site.do(open_, site.index.id) == [(0 if cancelled else 1,)]


@pytest.mark.parametrize("requested", [True, False])
def test_a_tool_waits_for_the_run_that_was_requested_while_its_new_index_failed(site: Site, requested: bool) -> None:
    site.do(
        "UPDATE search_tool SET next_index_id = index_id, next_config = config WHERE id = %s RETURNING 1", site.tool
    )
    if requested:
        assert tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) is None
    tasks.fail(site.pool, site.task, site.index.id, FolderGone("it is gone"))
    waiting = "SELECT next_index_id IS NOT NULL, update_error IS NULL FROM search_tool WHERE id = %s"
    assert site.do(waiting, site.tool) == [(requested, requested)]


# --- notes


def message_of(site: Site, name: str) -> tuple[str, str | None]:
    (file,) = file_lookup.page(site.pool, site.index.id, file_lookup.Wanted(q=name), limit=1)
    return file.status, file.message


def test_a_note_stays_with_the_live_text_until_the_file_is_mended(settled: Site) -> None:
    half = settled.folder / "half.json"
    half.write_text('{"pears": "cut o')
    os.utime(half, (LONG_AGO, LONG_AGO))
    settled.again()
    settled.finish_all()
    state, note = message_of(settled, "half")
    assert (state, "line 1, column 11" in (note or "")) == ("indexed", True)
    # the same content at another time
    os.utime(half, (LONG_AGO + 1, LONG_AGO + 1))
    settled.again()
    settled.finish_all()
    assert message_of(settled, "half") == ("indexed", note)
    # a failure has a message of its own, and leaves the note of the live text
    os.utime(half, (LONG_AGO + 2, LONG_AGO + 2))
    settled.again()
    # until then nothing is known of the content as it is now
    assert message_of(settled, "half") == ("pending", None)
    run = settled.worker()
    (claim,) = settled.claim(run)
    finish(run, [EmbeddedFile(FailedFile(claim, FileFacts(claim.type, claim.stamp), FileError(Reason.UNREADABLE)))])
    assert settled.refresh()
    assert message_of(settled, "half") == ("failed", Reason.UNREADABLE.remedy)
    settled.again()
    settled.finish_all()
    assert message_of(settled, "half") == ("indexed", note)
    half.write_text('{"pears": "whole"}')
    settled.again()
    settled.finish_all()
    assert message_of(settled, "half") == ("indexed", None)
