"""The counts of a task follow what its workers note, and what a large task leaves is tidied in parts; on the rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from api.indexers.chunks import shown_status
from tests.integration.steps.site import Site, listed_site, new_site, write
from worker.index.pipeline import index_files, index_slice
from worker.resources import Resources
from worker.state.index import counting, drift, files, leftovers, statuses, tasks, tool_actions
from worker.state.index.files import BEGINNING, ClaimPosition

PNG = b"\x89PNG\r\n\x1a\n"
COUNTS = (
    "total_files, indexed_files, skipped_files, failed_files, removed_files, searchable_files, total_chunks,"
    " vector_chunks, embedded_chunks, reused_chunks, tokens, total_bytes, done_bytes, removing, worked_files,"
    " text_left, text_read, text_ms, document_left, document_read, document_ms, image_left, image_read, image_ms,"
    " worked_from, progress"
)


@pytest.fixture
def site(resources: Resources) -> Site:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    return Site(resources, folder)


def counts(site: Site) -> list[Any]:
    ((*found,),) = site.do(f"SELECT {COUNTS} FROM search_index_task WHERE id = %s", site.task)
    return found


def noted(site: Site) -> list[Any]:
    """The counts by what workers noted alone."""
    with site.pool.connection() as connection:
        counting.add_noted(connection, [site.task])
    return counts(site)


def counted(site: Site) -> list[Any]:
    """The counts of all rows, which replace those of the task."""
    with site.pool.connection() as connection:
        counting.count(connection, [site.task])
    return counts(site)


def disturb(folder: Path, random: Random) -> None:
    """Edit, add, empty, rename and delete some files."""
    for number in range(12):
        path, action = folder / f"{number}.md", random.choice(["edit", "empty", "rename", "delete", None])
        if action == "edit" or not path.exists():
            write(folder, number, f"text {random.random()}\n\n# More\n\n{'words ' * random.randint(0, 200)}")
        elif action == "empty":
            path.write_text("")
        elif action == "rename":
            path.rename(folder / f"{number} again.md")
        elif action == "delete":
            path.unlink()


@pytest.mark.parametrize("seed", range(3))
def test_what_workers_note_adds_up_to_the_count_of_all_files(site: Site, seed: int) -> None:
    random = Random(seed)
    for turn in range(3):
        disturb(site.folder, random)
        site.list_folder()
        # the removals at a listing's end are counted with all files
        by_listing = noted(site) if turn == 0 else counted(site)
        assert by_listing == counted(site)
        run = site.worker()
        while claims := site.claim(run, random.randint(1, 5)):
            index_files(run, claims)
            assert (noted(site) if random.random() < 0.7 else counted(site)) == counted(site)
        assert site.refresh()
        assert site.do("SELECT 1 FROM search_index_task_delta WHERE task_id = %s", site.task) == []
        site.start()


TRUE_COUNTS = """
SELECT count(*) FILTER (WHERE status <> 'removed'), count(*) FILTER (WHERE status = 'indexed'),
    count(*) FILTER (WHERE status = 'skipped'), count(*) FILTER (WHERE status = 'failed'), sum(live_chunks),
    count(*) FILTER (WHERE status = 'indexed' OR awaits_vectors AND status IN ('pending', 'indexing')),
    (SELECT count(*) FROM chunk c JOIN search_index_file l ON l.id = c.file_id
     WHERE c.index_id = max(f.index_id::text)::uuid AND c.live AND c.embedded AND NOT c.lost),
    coalesce(sum(size_bytes) FILTER (WHERE status <> 'removed'), 0),
    coalesce(sum(size_bytes) FILTER (WHERE status IN ('indexed', 'skipped', 'failed')), 0),
    count(*) FILTER (WHERE status = 'removed' AND task_id = t.id), 0,
    coalesce(sum(embedded_chunks) FILTER (WHERE task_id = t.id), 0),
    coalesce(sum(reused_chunks) FILTER (WHERE task_id = t.id), 0),
    coalesce(sum(tokens) FILTER (WHERE task_id = t.id), 0),
    count(*) FILTER (WHERE task_id = t.id AND status IN ('indexed', 'skipped', 'failed'))
FROM (SELECT %s::uuid AS id) t, search_index_file f WHERE index_id = %s
"""
KEPT_COUNTS = """
SELECT total_files, indexed_files, skipped_files, failed_files, total_chunks, searchable_files, vector_chunks,
    total_bytes, done_bytes, removed_files, removing, embedded_chunks, reused_chunks, tokens, worked_files
FROM search_index_task WHERE id = %s
"""


NOTED = (
    "total, indexed, skipped, failed, removed, searchable, chunks, vectors, embedded, reused, tokens, total_bytes,"
    " done_bytes, removing, worked_files, text_left, text_read, text_ms, document_left, document_read, document_ms,"
    " image_left, image_read, image_ms"
)


def note(site: Site, first: int) -> list[int]:
    """Note another number for each count of a task. Returns the numbers."""
    numbers = [first * 100 + number for number in range(NOTED.count(",") + 1)]
    marks = ", ".join(["%s"] * len(numbers))
    query = f"INSERT INTO search_index_task_delta (task_id, {NOTED}) VALUES (%s, {marks}) RETURNING 1"
    site.do(query, site.task, *numbers)
    return numbers


@pytest.mark.parametrize("by", ["task", "sweep"])
def test_every_count_grows_by_all_that_was_noted_of_it(resources: Resources, site: Site, by: str) -> None:
    other = new_site(resources)
    write(site.folder, 0, "a text")
    for each in (site, other):
        each.list_folder()
        assert not each.refresh()
    # no count of all files is due, and each count has another number
    columns = COUNTS.split(", ")[:24]
    numbers = ", ".join(f"{name} = {number}" for number, name in enumerate(columns, 1000))
    site.do(f"UPDATE search_index_task SET {numbers}, counted_at = now(), refresh_seconds = 9, moved_at = NULL")
    before, untouched = counts(site)[:24], counts(other)
    site.do("DELETE FROM search_index_task_delta")
    noted_numbers = [note(site, 1), note(site, 2)]
    note(other, 3)
    if by == "task":
        counting.note_progress(site.pool, site.task)
        assert counts(other) == untouched
    else:
        # the limit is one of tasks, however often each was noted
        assert counting.refresh_due(site.pool, limit=2) == 0
        assert counts(other) != untouched
    assert counts(site)[:24] == [sum(values) for values in zip(before, *noted_numbers, strict=True)]
    ((is_moved,),) = site.do(
        "SELECT moved_at > now() - interval '1 min' FROM search_index_task WHERE id = %s", site.task
    )
    assert is_moved
    # what follows at once waits for a moment, and nothing counts twice
    after = counts(site)
    note(site, 1)
    counting.note_progress(site.pool, site.task)
    assert counts(site) == after


def test_nothing_is_added_to_a_task_that_ended(site: Site) -> None:
    site.list_folder()
    assert site.refresh()
    before = counts(site)
    note(site, 1)
    assert noted(site) == before


def ask(site: Site, paths: list[str]) -> None:
    task = tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=True, paths=paths)
    assert task is not None
    site.task = task


@pytest.mark.parametrize("seed", range(4))
def test_runs_over_some_paths_keep_the_counts_without_counting_all_files(
    site: Site, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    disturb(site.folder, random)
    site.list_folder()
    site.finish_all()

    def refuse(*_: Any) -> None:
        raise AssertionError("all files were counted")

    monkeypatch.setattr(counting, "count", refuse)
    for _ in range(4):
        before = {path.name for path in site.folder.iterdir()}
        disturb(site.folder, random)
        names = sorted(before | {path.name for path in site.folder.iterdir()})
        ask(site, random.sample(names, random.randint(1, len(names))))
        site.list_folder()
        run = site.worker()
        while claims := site.claim(run, random.randint(1, 5)):
            index_files(run, claims)
        assert site.refresh()
        assert site.do(KEPT_COUNTS, site.task) == site.do(TRUE_COUNTS, site.task, site.index.id)


def lose_vectors(site: Site) -> None:
    """Queue a file for the open task as if its vectors were lost."""
    site.do("UPDATE search_index_file SET lost = true WHERE path = '1.md' AND index_id = %s", site.index.id)
    assert drift.take_up(site.pool, site.index.id, site.task, site.worker().epoch)


def give_up(site: Site) -> None:
    """Let a file end its process for the last time."""
    site.do("UPDATE search_index_file SET crashes = 9 WHERE index_id = %s", site.index.id)
    run = site.worker()
    assert site.claim(run, 1)
    assert site.expire(run)


def pay(site: Site) -> None:
    """Record what a worker paid before it had to stop."""
    run = site.worker()
    (claim,) = site.claim(run, 1)
    files.add_paid(site.pool, run.epoch, [(claim.id, 3, 70)])
    files.release(site.pool, run.lease.owner)


@pytest.mark.parametrize("change", [lose_vectors, give_up, pay])
def test_all_files_are_counted_after_a_change_that_nobody_notes(site: Site, change: Callable[[Site], None]) -> None:
    for number in range(3):
        write(site.folder, number, "a text")
    site.list_folder()
    site.finish_all()
    write(site.folder, 0, "another text")
    ask(site, ["0.md"])
    site.list_folder()
    change(site)
    run = site.worker()
    while claims := site.claim(run):
        index_files(run, claims)
    assert site.refresh()
    assert site.do(KEPT_COUNTS, site.task) == site.do(TRUE_COUNTS, site.task, site.index.id)
    tokens = "SELECT coalesce(sum(tokens), 0) FROM search_index_file WHERE task_id = %s"
    assert site.do("SELECT tokens FROM search_index_task WHERE id = %s", site.task) == site.do(tokens, site.task)


def searchable_at(site: Site) -> object:
    noted(site)
    ((time,),) = site.do("SELECT searchable_at FROM search_index_task WHERE id = %s", site.task)
    return time


def test_a_folder_is_searchable_once_all_is_listed_and_no_file_lacks_its_words(site: Site) -> None:
    for number in range(3):
        write(site.folder, number, "a text")
    site.list_folder()
    assert searchable_at(site) is None
    run = site.worker()
    index_files(run, site.claim(run, 2))
    assert searchable_at(site) is None
    site.do("UPDATE search_index_task SET listing = true WHERE id = %s", site.task)
    index_files(run, site.claim(run, 1))
    assert searchable_at(site) is None
    site.do("UPDATE search_index_task SET listing = false, counted_at = NULL WHERE id = %s", site.task)
    counting.note_progress(site.pool, site.task)
    first = searchable_at(site)
    assert first is not None
    assert site.refresh()
    assert searchable_at(site) == first
    site.again()
    assert searchable_at(site) is None
    site.finish_all()
    assert searchable_at(site) is not None


def test_counts_of_an_earlier_release_stand_for_those_that_it_lacked(site: Site) -> None:
    write(site.folder, 0, "a text")
    site.list_folder()
    site.finish_all()
    site.do("UPDATE search_index_task SET searchable_files = NULL, vector_chunks = NULL WHERE id = %s", site.task)
    counted_now = (
        "SELECT searchable_files, vector_chunks, indexed_files, total_chunks FROM search_index_task WHERE id = %s"
    )
    write(site.folder, 1, "a text")
    ask(site, ["1.md"])
    assert site.do(counted_now, site.task) == [(1, 1, 1, 1)]
    site.do("UPDATE search_index_task SET searchable_files = NULL, vector_chunks = NULL WHERE id = %s", site.task)
    site.list_folder()
    run = site.worker()
    index_files(run, site.claim(run))
    noted(site)
    assert site.do(counted_now, site.task) == [(2, 2, 2, 2)]


def test_chunks_without_their_vector_are_counted(site: Site) -> None:
    for number, text in enumerate(("a text", "another text")):
        write(site.folder, number, text)
        os.utime(site.folder / f"{number}.md", (1, 1))
    site.list_folder()
    site.finish_all()
    ids = [*site.chunks(live=True)]
    for _ in range(2):
        # noting it twice counts it once
        drift.mark_lost(site.pool, site.index.id, ids[:1], None)
    assert site.do("SELECT sum(vectors_due) FROM search_index_file WHERE index_id = %s", site.index.id) == [(1,)]
    site.again()
    assert drift.take_up(site.pool, site.index.id, site.task, site.worker().epoch) == 1
    assert counted(site)[5:8] == [1, 2, 1]
    site.finish_all()
    assert counts(site)[5:8] == [2, 2, 2]


def test_a_count_that_takes_long_is_replaced_by_what_is_noted(site: Site) -> None:
    for number in range(3):
        write(site.folder, number, "a text")
    site.list_folder()
    site.refresh()
    site.do("UPDATE search_index_task SET refresh_seconds = 9, moved_at = NULL WHERE id = %s", site.task)
    run = site.worker()
    index_files(run, site.claim(run, 2))
    before = site.do("SELECT counted_at FROM search_index_task WHERE id = %s", site.task)
    counting.note_progress(site.pool, site.task)
    assert counts(site)[:2] == [3, 2]
    assert site.do("SELECT counted_at FROM search_index_task WHERE id = %s", site.task) == before


def test_the_end_of_a_listing_calls_for_a_count(site: Site) -> None:
    for number in range(3):
        write(site.folder, number, "a text")
    site.list_folder()
    site.finish_all()
    (site.folder / "0.md").unlink()
    site.start()
    site.do("UPDATE search_index_task SET counted_at = now(), refresh_seconds = 9")
    site.list_folder()
    counting.note_progress(site.pool, site.task)
    assert counts(site)[0] == 2


def eta(site: Site) -> float | None:
    """The remaining seconds that the status shows."""
    with site.pool.connection() as connection:
        counting.add_noted(connection, [site.task])
    task = statuses.newest_of_tool(site.pool, site.tool)
    assert task is not None
    return shown_status(task).eta_seconds


def test_the_remaining_time_is_known_once_a_file_is_done(site: Site) -> None:
    for number in range(4):
        write(site.folder, number, "a text")
    site.list_folder()
    assert eta(site) is None
    run = site.worker()
    index_files(run, site.claim(run, 1))
    assert eta(site) is not None
    # two hours of work are left if a quarter took 40 minutes, also while more is being listed
    site.do(
        "UPDATE search_index_task SET listing = true, worked_from = now() - interval '40 min' WHERE id = %s", site.task
    )
    assert eta(site) == pytest.approx(7200, rel=0.02)
    site.do("UPDATE search_index_task SET listing = false WHERE id = %s", site.task)
    index_files(run, site.claim(run, 2))
    assert eta(site) == pytest.approx(800, rel=0.02)
    site.finish_all()
    assert eta(site) is None


def test_the_remaining_time_does_not_count_what_was_done_before(site: Site) -> None:
    for number in range(9):
        write(site.folder, number, "a text")
        # old enough that an unchanged stamp means an unchanged file
        os.utime(site.folder / f"{number}.md", (1, 1))
    site.list_folder()
    site.finish_all()
    for number in range(2):
        write(site.folder, number, "a long text" * 99)
    site.again()
    assert eta(site) is None
    run = site.worker()
    index_files(run, site.claim(run, 1))
    eta(site)
    site.do("UPDATE search_index_task SET worked_from = now() - interval '10 s' WHERE id = %s", site.task)
    assert eta(site) == pytest.approx(10, rel=0.1)
    # a clock that was set back
    site.do("UPDATE search_index_task SET worked_from = now() + interval '10 s' WHERE id = %s", site.task)
    assert eta(site) == 0


def test_images_of_most_bytes_are_not_most_of_the_time(site: Site) -> None:
    for number in range(4):
        write(site.folder, number, "a text " * 50)
        (site.folder / f"{number}.png").write_bytes(PNG + bytes(90_000 + number))
    (site.folder / "a.pdf").write_bytes(b"%PDF-1.4" + bytes(4_000))
    site.list_folder()
    work = "SELECT text_left, text_read, document_left, document_read, image_left, image_read FROM search_index_task"
    left = 4 * (361 + 1024)
    assert counted(site)
    assert site.do(f"{work} WHERE id = %s", site.task) == [(left, 0, 5_032, 0, 4, 0)]
    run = site.worker()
    index_files(run, site.claim(run, 4))
    site.do("UPDATE search_index_task SET worked_from = now() - interval '60 s' WHERE id = %s", site.task)
    # by their bytes they would take an hour
    assert 0 < (eta(site) or 0) < 60
    for _ in range(2):
        index_files(run, site.claim(run, 1))
    assert noted(site)
    ((_, text, *_, images, read),) = site.do(f"{work} WHERE id = %s", site.task)
    assert (text, images, read) == (left, 3, 1)
    ((ms,),) = site.do("SELECT image_ms + document_ms FROM search_index_task WHERE id = %s", site.task)
    assert ms > 0
    site.finish_all()
    assert site.do(f"{work} WHERE id = %s", site.task)[0][::2] == (0, 0, 0)


@pytest.mark.parametrize("wait", [True, False])
def test_a_large_task_is_closed_with_exact_counts(site: Site, wait: bool) -> None:
    for number in range(3):
        write(site.folder, number, "a text")
    site.list_folder()
    site.refresh()
    site.do("UPDATE search_index_task SET refresh_seconds = 9 WHERE id = %s", site.task)
    run = site.worker()
    index_files(run, site.claim(run))
    assert tasks.refresh(site.pool, site.task, site.index.id, wait=wait) is not None
    assert counts(site)[:4] == [3, 3, 0, 0]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of each transaction."""
    monkeypatch.setattr(leftovers, "ROWS", 2)
    return 2


def many(site: Site) -> None:
    """Index nine files; then edit them, and begin to index them again."""
    for number in range(9):
        write(site.folder, number, f"text {number}")
    site.list_folder()
    site.finish_all()
    for number in range(9):
        write(site.folder, number, f"another text {number}")
    site.again()


def test_a_cancelled_task_of_many_files_is_tidied_in_parts(site: Site, parts: int) -> None:
    many(site)
    mark_seen(site)
    run = site.worker()
    site.claim(run, 3)
    site.cancel()
    # what workers held is back at once
    left = site.do("SELECT status, lease_owner FROM search_index_file WHERE index_id = %s", site.index.id)
    assert sorted(left) == [("indexed", None)] * (3 + parts) + [("pending", None)] * (6 - parts)
    # a later task over another folder neither ends this nor loses its own listing
    other = listed_site(site.resources)
    mark_seen(other)
    leftovers.tidy(site.pool, 60)
    assert other.do("SELECT count(*) FROM search_index_listing WHERE task_id = %s", other.task) == [(2,)]
    assert set(site.outcomes().values()) == {"indexed"}
    assert counts(site)[:2] == [9, 9]
    assert site.do("SELECT 1 FROM search_index_listing WHERE task_id = %s", site.task) == []
    assert site.do("SELECT leftover FROM search_index_task WHERE id = %s", site.task) == [(False,)]
    assert leftovers.tidy(site.pool, 60) == 0
    site.again()
    site.finish_all()
    site.prove()


def mark_seen(site: Site) -> None:
    """Mark the files as a listing does that does not tell the spans of its pages."""
    seen = "INSERT INTO search_index_listing (task_id, file_id) SELECT %s, id FROM search_index_file"
    site.do(f"{seen} WHERE index_id = %s", site.task, site.index.id)


def test_files_that_a_later_task_took_up_are_left_to_it(site: Site, parts: int) -> None:
    many(site)
    site.cancel()
    site.again()
    before = site.outcomes()
    assert list(before.values()).count("pending") == 9
    leftovers.tidy(site.pool, 60)
    assert site.outcomes() == before
    site.finish_all()
    assert len(site.chunks(live=True)) == 9
    site.prove()


def test_a_dead_sweep_is_continued(site: Site, parts: int) -> None:
    many(site)
    site.cancel()
    assert leftovers.tidy(site.pool, seconds=0) == 0
    ((index_id,),) = site.do("SELECT index_id FROM search_index_task WHERE id = %s", site.task)
    with site.pool.connection() as connection:
        assert leftovers._tidy(connection, site.task, index_id)
    assert list(site.outcomes().values()).count("indexed") == 2 * parts
    leftovers.tidy(site.pool, 60)
    assert set(site.outcomes().values()) == {"indexed"}


def test_a_slice_claims_past_what_it_saw_and_then_what_came_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        write(site.folder, number, f"text {number}")
    site.list_folder()
    run, other, claim = site.worker(), site.worker(), files.claim
    (first,) = site.claim(other, 1)
    starts: list[ClaimPosition] = []

    def claiming(*given: Any, after: ClaimPosition = BEGINNING, **values: Any) -> list[files.FileClaim]:
        starts.append(after)
        return claim(*given, **{**values, "max_files": 2}, after=after)

    monkeypatch.setattr(files, "claim", claiming)
    batches = index_slice(run, site.task, 60)
    next(batches)
    files.release(site.pool, other.lease.owner)
    list(batches)
    assert set(site.outcomes().values()) == {"indexed"}
    assert starts[0] == BEGINNING
    assert ClaimPosition(first.size_bytes, first.id) < starts[1] < starts[2] < starts[3]
    # nothing was left behind the last, so the beginning is looked at
    assert starts[4:] == [BEGINNING, ClaimPosition(first.size_bytes, first.id), BEGINNING]


@pytest.mark.parametrize(("listing", "most"), [(True, 0.99), (False, 0.999)])
def test_a_task_is_never_done_before_it_is_closed(resources: Resources, listing: bool, most: float) -> None:
    site = listed_site(resources)
    done = "UPDATE search_index_file SET status = 'skipped', size_bytes = 1000000000 WHERE index_id = %s"
    site.do(done, site.index.id)
    site.do("UPDATE search_index_task SET listing = %s WHERE id = %s", listing, site.task)
    assert counted(site)[-1] == most


def test_work_begins_with_the_last_change_before_it(resources: Resources) -> None:
    site = listed_site(resources)
    moved = "UPDATE search_index_task SET moved_at = started_at + interval '{} s' WHERE id = %s"
    since = "SELECT extract(epoch FROM worked_from - started_at)::int FROM search_index_task WHERE id = %s"
    site.do(moved.format(5), site.task)
    counted(site)
    assert site.do(since, site.task) == [(None,)]
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s AND path = '0.md'", site.index.id)
    site.do(moved.format(7), site.task)
    counted(site)
    site.do(moved.format(9), site.task)
    counted(site)
    assert site.do(since, site.task) == [(7,)]
