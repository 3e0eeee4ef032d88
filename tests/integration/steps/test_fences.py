"""Writers that are too late: each fence alone, between two workers, without waiting for a lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from schemas.errors import FolderGone, LeaseLost
from tests.integration.steps.site import FILES, Site, drafts_of, embedded, lease_of, new_ids, refused, write
from tests.service import eventually
from worker.index import lease
from worker.index.commit import finish
from worker.index.lease import Lease
from worker.index.pipeline import index_files
from worker.index.run import IndexRun
from worker.index.write import write as write_rows
from worker.resources import Resources
from worker.state.index import chunks, files, index_switch, listings, tasks, tools

# --- what makes a writer late, one cause at a time, so that each fence is tested alone


OWNER, GIVEN_BACK, EPOCH, DELETED, CLOSED = "owner", "given back", "epoch", "deleted", "closed"
EVENTS = {
    OWNER: "UPDATE search_index_file SET lease_owner = gen_random_uuid() WHERE index_id = %s",
    GIVEN_BACK: "UPDATE search_index_file SET status = 'pending', lease_owner = NULL WHERE index_id = %s",
    EPOCH: "UPDATE search_index SET epoch = epoch + 1 WHERE id = %s",
    DELETED: "UPDATE search_index SET deleted_at = now() WHERE id = %s",
    CLOSED: "UPDATE search_index_task SET status = 'cancelled' WHERE index_id = %s",
    "unleased": "UPDATE search_index_task SET plan_owner = NULL WHERE index_id = %s",
}


def happens(site: Site, event: str) -> None:
    if event:
        site.do(EVENTS[event], site.index.id)


@pytest.mark.parametrize("event", [OWNER, GIVEN_BACK, EPOCH, DELETED])
def test_a_late_writer_drafts_no_chunk(site: Site, event: str) -> None:
    run = site.worker()
    made = embedded(site, run)
    happens(site, event)
    assert refused(lambda: chunks.draft(site.pool, run.lease.owner, run.epoch, drafts_of(made)))
    assert site.do("SELECT ids FROM chunk_draft WHERE index_id = %s", run.index.id) == []


@pytest.mark.parametrize(("event", "is_told"), [(OWNER, False), (GIVEN_BACK, False), (EPOCH, True), (DELETED, True)])
def test_a_late_writer_makes_nothing_live(site: Site, event: str, is_told: bool) -> None:
    run = site.worker()
    made = embedded(site, run)
    write_rows(run, made)
    index_id = run.index.id
    happens(site, event)
    before = site.do("SELECT status, lease_owner FROM search_index_file WHERE index_id = %s ORDER BY id", index_id)
    assert refused(lambda: finish(run, made)) is is_told
    after = site.do("SELECT status, lease_owner FROM search_index_file WHERE index_id = %s ORDER BY id", index_id)
    assert after == before
    assert site.do("SELECT id FROM chunk WHERE index_id = %s AND live", index_id) == []
    assert site.do("SELECT id FROM chunk_tombstone WHERE index_id = %s", index_id) == []


@pytest.mark.parametrize(("event", "left"), [("", FILES), (EPOCH, 0), (CLOSED, 0)])
def test_a_task_of_the_past_claims_nothing(site: Site, event: str, left: int) -> None:
    run = site.worker()
    happens(site, event)
    assert len(site.claim(run)) == left
    assert set(site.outcomes().values()) == {"indexing" if left else "pending"}


def test_a_claim_waits_for_a_task_that_is_ending(site: Site) -> None:
    """Otherwise its files would be left to a task that has ended, and a retry would find nothing to do."""
    run = site.worker()
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(1) as thread:
        with site.pool.connection() as ending:
            index_switch.lock_index(ending, run.index.id)
            tasks.cancel(ending, run.index.id)
            claiming = thread.submit(site.claim, run)
            eventually(lambda: claiming.done() or bool(site.do(waiting)), 30)
        assert claiming.result(30) == []
    assert set(site.outcomes().values()) == {"pending"}


def test_a_task_claims_no_file_of_another_index(site: Site, resources: Resources) -> None:
    other = Site(resources, site.folder)
    other.list_folder()
    run = site.worker()
    claims = site.claim(run)
    assert set(other.outcomes().values()) == {"pending"}
    assert {claim.id for claim in claims} == {
        id_ for (id_,) in site.do("SELECT id FROM search_index_file WHERE index_id = %s", run.index.id)
    }


@pytest.mark.parametrize("event", [EPOCH, CLOSED])
def test_a_late_worker_hears_of_it_at_its_next_beat(site: Site, event: str) -> None:
    run = site.worker()
    site.claim(run)

    def beats() -> bool:
        with site.pool.connection() as connection:
            return tasks.beat(connection, site.task, run.lease.owner, parsing=True)

    assert beats()
    assert tasks.running(site.pool, site.task) is not None
    happens(site, event)
    assert not beats()
    assert tasks.running(site.pool, site.task) is None


@pytest.mark.parametrize("event", [EPOCH, CLOSED, "unleased"])
def test_a_late_lister_records_no_page_and_no_end(site: Site, event: str) -> None:
    site.finish_all()
    task, lister = site.start(), uuid4()
    plan = tasks.begin_plan(site.pool, task, lister)
    assert plan is not None
    happens(site, event)
    page: dict[str, Any] = {"task_id": task, "index_id": plan.index_id, "owner": lister}
    assert refused(
        lambda: listings.record_page(
            site.pool, **page, listed=[], cursor="1", unlisted=(), ignored={}, matched=(), first=True
        )
    )
    assert refused(
        lambda: listings.end_listing(
            site.pool, **page, hold=False, left_out=0, warning=None, listing_warning=None, keys=None
        )
    )
    # otherwise all files would count as vanished
    assert set(site.outcomes().values()) == {"indexed"}


def test_one_worker_lists_at_a_time(site: Site) -> None:
    site.finish_all()
    task = site.start()
    assert tasks.begin_plan(site.pool, task, uuid4()) is not None
    assert tasks.begin_plan(site.pool, task, uuid4()) is None


def test_a_folder_that_was_listed_is_not_listed_again(site: Site) -> None:
    """A message may arrive twice."""
    assert tasks.begin_plan(site.pool, site.task, uuid4()) is None
    site.finish_all()
    assert tasks.begin_plan(site.pool, site.task, uuid4()) is None


@pytest.mark.parametrize("event", ["", EPOCH, DELETED])
def test_an_index_is_held_for_its_present_epoch_only(site: Site, event: str) -> None:
    run = site.worker()
    happens(site, event)
    with site.pool.connection() as connection:
        assert refused(lambda: files.hold_epoch(connection, run.index.id, run.epoch)) is bool(event)


def test_what_an_earlier_task_paid_is_not_this_ones(site: Site) -> None:
    run = site.worker()
    (first, *_) = site.claim(run)
    files.add_paid(site.pool, run.epoch, [(first.id, 2, 20)])
    paid = "SELECT embedded_chunks, tokens FROM search_index_file WHERE id = %s"
    assert site.do(paid, first.id) == [(2, 20)]
    site.cancel()
    # the next task claims the file before listing it again
    assert tasks.begin_plan(site.pool, site.start(), uuid4()) is not None
    site.claim(site.worker())
    assert site.do(paid, first.id) == [(0, 0)]
    files.add_paid(site.pool, run.epoch, [(first.id, 4, 40)])
    assert site.do(paid, first.id) == [(0, 0)]


# --- A holds files, others come, A continues


def lose_lease(site: Site, run: IndexRun) -> None:
    site.expire(run)


def lose_lease_to_another(site: Site, run: IndexRun) -> None:
    site.expire(run)
    other = site.worker()
    while site.claim(other):
        pass  # files that may have killed a process are claimed one by one


def cancel(site: Site, run: IndexRun) -> None:
    site.cancel()


def cancel_and_start(site: Site, run: IndexRun) -> None:
    site.cancel()
    site.again()


def fail(site: Site, run: IndexRun) -> None:
    tasks.fail(site.pool, site.task, run.index.id, FolderGone("it is gone"))


def delete(site: Site, run: IndexRun) -> None:
    tools.delete(site.pool, site.tool)


TAKEOVERS = [lose_lease, lose_lease_to_another, cancel, cancel_and_start, fail, delete]


@pytest.mark.parametrize("takeover", TAKEOVERS)
@pytest.mark.parametrize("step", ["draft", "finish"])
def test_who_sleeps_through_a_takeover_changes_no_row(
    site: Site, takeover: Callable[[Site, IndexRun], None], step: str
) -> None:
    run = site.worker()
    made = embedded(site, run)
    if step == "finish":
        write_rows(run, made)
    takeover(site, run)
    query = "SELECT {} FROM {} WHERE index_id = %s ORDER BY 1"
    looks = [
        ("id, status, lease_owner, live_chunks", "search_index_file"),
        ("id, live", "chunk"),
        ("id", "chunk_tombstone"),
        ("file_id AS id, ids", "chunk_draft"),
    ]

    def seen() -> list[Sequence[tuple[Any, ...]]]:
        return [site.do(query.format(*look), run.index.id) for look in looks]

    before = seen()
    if step == "draft":
        assert refused(lambda: chunks.draft(site.pool, run.lease.owner, run.epoch, drafts_of(made)))
    else:
        refused(lambda: finish(run, made))
    assert seen() == before
    assert not any(live for _, live in before[1])


@pytest.mark.parametrize("end", [cancel, fail])
def test_the_end_of_a_task_shuts_its_workers_out(site: Site, end: Callable[[Site, IndexRun], None]) -> None:
    run = site.worker()
    made = embedded(site, run)
    write_rows(run, made)
    end(site, run)
    with site.pool.connection() as connection, pytest.raises(LeaseLost):
        files.hold_epoch(connection, run.index.id, run.epoch)
    # what was written is deleted, and open files wait for the next task
    assert site.drafts() == set()
    assert site.tombstones() == new_ids(made)
    assert set(site.outcomes().values()) == {"pending"}
    site.prove()


def test_a_first_listing_shuts_out_whoever_wrote_before(site: Site) -> None:
    run = site.worker()
    made = embedded(site, run)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    site.start()
    site.list_folder()
    assert refused(lambda: chunks.draft(site.pool, run.lease.owner, run.epoch, drafts_of(made)))


def test_a_further_slice_of_a_listing_shuts_nobody_out(site: Site) -> None:
    site.finish_all()
    task = site.start()
    plan = tasks.begin_plan(site.pool, task, owner := uuid4())
    assert plan is not None
    epoch = site.index.epoch
    tasks.release_plan(site.pool, task, owner)
    assert tasks.begin_plan(site.pool, task, uuid4()) is not None
    assert site.index.epoch == epoch


def test_a_listing_is_given_back_by_its_holder_only(site: Site) -> None:
    site.finish_all()
    task = site.start()
    assert tasks.begin_plan(site.pool, task, uuid4()) is not None
    # a write would wait for the holder's transaction
    version = "SELECT xmin::text FROM search_index_task WHERE id = %s"
    before = site.do(version, task)
    tasks.release_plan(site.pool, task, uuid4())
    assert site.do(version, task) == before
    assert tasks.begin_plan(site.pool, task, uuid4()) is None


def test_a_worker_gives_back_its_own_files_only(site: Site) -> None:
    one, other = site.worker(), site.worker()
    (held,), (kept,) = site.claim(one, 1), site.claim(other, 1)
    files.release(site.pool, one.lease.owner)
    held_by = "SELECT status, lease_owner, attempts FROM search_index_file WHERE id = %s"
    assert site.do(held_by, held.id) == [("pending", None, 0)]
    assert site.do(held_by, kept.id) == [("indexing", other.lease.owner, 1)]


def test_what_is_parsed_is_told_of_its_own_files_only(site: Site) -> None:
    one, other = site.worker(), site.worker()
    site.claim(one, 1)
    site.claim(other, 1)
    files.note_parsed(site.pool, one.lease.owner)
    parsing = "SELECT lease_owner, parsing FROM search_index_file WHERE status = 'indexing' AND index_id = %s"
    assert dict(site.do(parsing, one.index.id)) == {one.lease.owner: 0, other.lease.owner: 1}


# --- the lease of this process


@pytest.mark.parametrize(("age", "is_over"), [(-1.0, False), (1.0, True)])
def test_a_lease_is_over_when_its_time_is(age: float, is_over: bool) -> None:
    """While Postgres does not answer: a process that was suspended must not continue before its first heartbeat."""
    held = Lease()
    held._renewed = time.monotonic() - tasks.LEASE.total_seconds() - age
    assert refused(held.check) is is_over


def test_a_lease_that_was_taken_is_over_at_once() -> None:
    held = lease_of()
    held.check()
    held._lost.set()
    assert refused(held.check)


def test_whoever_renews_a_lease_hears_that_it_was_taken(
    site: Site, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    with lease.open_lease(database_url, site.task) as held:
        held.check()
        site.cancel()
        # long before it would run out by itself
        eventually(held._lost.is_set, 20)
        assert refused(held.check)


def test_a_renewed_lease_counts_from_the_time_it_was_sent(
    site: Site, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres may have renewed it long before its answer comes."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    renewed: list[float] = []

    class SlowlyAnswered(Lease):
        def beat(self, connection: Connection[Any], task_id: UUID) -> bool:
            is_wanted = super().beat(connection, task_id)
            renewed.append(time.monotonic())
            time.sleep(0.05)
            return is_wanted

    with lease.keep_renewed(SlowlyAnswered(), database_url, site.task) as held:
        began = held._renewed
        eventually(lambda: bool(renewed), 20)
    assert began < held._renewed <= renewed[-1]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_lease_that_is_over_is_not_renewed(
    site: Site, database_url: str, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    run = site.worker()
    site.claim(run)
    if is_over:
        run.lease._renewed = time.monotonic() - tasks.LEASE.total_seconds() - 1
    until = "SELECT until FROM file_lease WHERE owner = %s"
    before = site.do(until, run.lease.owner)
    with ThreadPoolExecutor(1) as other:
        kept = other.submit(run.lease.keep, database_url, site.task)
        try:
            if is_over:
                time.sleep(0.5)
                assert site.do(until, run.lease.owner) == before
            else:
                eventually(lambda: site.do(until, run.lease.owner) != before, 20)
        finally:
            run.lease.end()
        kept.result(20)
    assert refused(run.lease.check) is is_over


# --- a file that kills its process


def deaths_until_given_up(site: Site, poison: UUID) -> list[int]:
    """The number of files that each process held when the poison file killed it during parsing."""
    deaths: list[int] = []
    while dict(site.do("SELECT id, status FROM search_index_file"))[poison] != "failed":
        run = site.worker()
        claims = site.claim(run)
        assert claims, deaths
        if poison in {claim.id for claim in claims}:
            deaths.append(len(claims))
            site.expire(run)
        else:
            index_files(run, claims)
        assert len(deaths) < 10, deaths
    return deaths


def test_a_poison_file_costs_three_processes_and_one_more_in_company(site: Site) -> None:
    (poison,) = site.do("SELECT id FROM search_index_file WHERE index_id = %s ORDER BY id DESC LIMIT 1", site.index.id)[
        0
    ]
    deaths = deaths_until_given_up(site, poison)
    assert deaths == [FILES, *[1] * 3]
    assert sorted(site.outcomes().values()) == ["failed"] + ["indexed"] * (FILES - 1)
    ((reason, crashes),) = site.do("SELECT reason, crashes FROM search_index_file WHERE id = %s", poison)
    assert (reason, crashes) == ("crashed", 3)
    assert site.refresh()


def test_a_lone_poison_file_costs_three_processes(resources: Resources) -> None:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    write(folder, 0, "poison")
    site = Site(resources, folder)
    site.list_folder()
    ((poison,),) = site.do("SELECT id FROM search_index_file WHERE index_id = %s", site.index.id)
    assert deaths_until_given_up(site, poison) == [1] * 3
