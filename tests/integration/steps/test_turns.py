"""The order of work between projects and tasks, directly on the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import Cursor

from tests.integration.database import do
from tests.integration.steps.site import Site, listed_site, passes
from worker import dispatch
from worker.app import BULK, FAST, MAX_SLICES, app
from worker.index import claim_turns
from worker.index.claim_turns import ClaimTurns
from worker.index.pipeline import claim_files
from worker.resources import Resources
from worker.state.index import files, messages, tasks, turns
from worker.state.index.files import SMALL_BYTES
from worker.state.index.tasks import SMALL_TASK
from worker.tasks import index as index_task
from worker.tasks import process

#: What a session still holds of tables and rows.
LOCKS = "SELECT mode FROM pg_locks WHERE pid = %s AND locktype IN ('relation', 'transactionid') AND granted"

pytestmark = pytest.mark.usefixtures("nobody_else")


# --- between projects and tasks


def served(resources: Resources, sites: dict[UUID, Site], workers: int, **given: Any) -> Counter[str]:
    """The projects that this many workers serve, if each worker takes a file and keeps it."""
    projects: Counter[str] = Counter()
    for _ in range(workers):
        task = turns.fairest(resources.pool, **given)
        assert task is not None
        site = sites[task]
        assert site.claim(site.worker(), 1)
        projects[site.project] += 1
    return projects


def test_a_project_with_three_tasks_gets_no_more_than_one_with_one(resources: Resources) -> None:
    many = [listed_site(resources, 4, project="many") for _ in range(3)]
    one = listed_site(resources, 4, project="one")
    sites = {site.task: site for site in (*many, one)}
    assert served(resources, sites, 6) == {"many": 3, "one": 3}
    # and each of its own tasks gets one
    taken = [sum(status == "indexing" for status in site.outcomes().values()) for site in many]
    assert taken == [1, 1, 1]


def test_messages_go_to_the_project_with_the_fewest_workers_and_then_to_its_task_with_the_fewest(
    resources: Resources,
) -> None:
    busy, idle = (listed_site(resources, 3, project="many") for _ in range(2))
    one, other = (listed_site(resources, 3, project=name) for name in ("one", "other"))
    for site in (busy, busy, idle, other):
        assert site.claim(site.worker(), 1)
    passes(resources, 60)
    # of equals any comes first
    for _ in range(5):
        waiting = messages.waiting(resources.pool, most_slices=8, limit=9)
        assert [task.slices for task in waiting] == [0, 1, 1, 2]
        assert [task.id for task in waiting] == [one.task, other.task, idle.task, busy.task]


def test_the_preferred_task_is_served_unless_another_waits_more(resources: Resources) -> None:
    one, other = listed_site(resources, project="a"), listed_site(resources, project="b")
    assert turns.fairest(resources.pool, preferred=other.task) == other.task
    assert turns.fairest(resources.pool, preferred=one.task) == one.task
    other.claim(other.worker(), 1)
    assert turns.fairest(resources.pool, preferred=other.task) == one.task
    # a task that waits for its provider gets no turn
    messages.note_sent(resources.pool, one.task, 60)
    assert turns.fairest(resources.pool, preferred=one.task) == other.task


def test_a_worker_that_freezes_once_it_has_chosen_holds_no_task(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It locks all open tasks to choose one."""
    site = listed_site(resources)
    answered, locks = Cursor.fetchone, []

    def fetchone(cursor: Cursor[Any]) -> Any:
        locks.append(do(resources.pool, LOCKS, cursor.connection.info.backend_pid))
        return answered(cursor)

    monkeypatch.setattr(Cursor, "fetchone", fetchone)
    assert turns.fairest(resources.pool) == site.task
    assert locks == [[]]


def test_a_worker_that_holds_no_file_counts_for_no_task(resources: Resources) -> None:
    site = listed_site(resources)
    released, done = site.worker(), site.worker()
    assert site.claim(released, 1)
    files.release(resources.pool, released.lease.owner)
    assert site.claim(done, 1)
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE lease_owner = %s", done.lease.owner)
    assert site.claim(site.worker(), 1)
    assert messages.count_slices(resources.pool) == 1


def test_a_task_without_waiting_files_has_no_turn(resources: Resources) -> None:
    site = listed_site(resources)
    site.claim(site.worker())
    assert turns.fairest(resources.pool, preferred=site.task) is None


@pytest.mark.parametrize(("number", "small"), [(SMALL_TASK, True), (SMALL_TASK + 1, False)])
def test_the_fast_queue_serves_small_tasks_only(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, number: int, small: bool
) -> None:
    site = listed_site(resources, number)
    tasks.refresh(resources.pool, site.task, site.index.id)
    assert turns.fairest(resources.pool, only_small=True) == (site.task if small else None)
    assert (FAST in woken(resources, monkeypatch, site.task)) is small


@pytest.mark.parametrize(
    ("left", "left_bytes", "listing", "small"),
    [
        (SMALL_TASK, tasks.MAX_SMALL_BYTES, False, True),
        (SMALL_TASK + 1, tasks.MAX_SMALL_BYTES, False, False),
        (SMALL_TASK, tasks.MAX_SMALL_BYTES + 1, False, False),
        (SMALL_TASK, tasks.MAX_SMALL_BYTES, True, False),
    ],
)
def test_the_fast_queue_serves_an_edit_in_a_large_folder(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, left: int, left_bytes: int, listing: bool, small: bool
) -> None:
    site = listed_site(resources)
    site.refresh()
    counts = "total_files = 9000, indexed_files = %s, skipped_files = 0, total_bytes = 9000000, done_bytes = %s"
    values = (9000 - left, 9_000_000 - left_bytes, listing, site.task)
    site.do(f"UPDATE search_index_task SET {counts}, listing = %s WHERE id = %s", *values)
    assert turns.fairest(resources.pool, only_small=True) == (site.task if small else None)
    passes(resources, 60)
    (waiting,) = messages.waiting(resources.pool, most_slices=8, limit=9)
    assert waiting.is_small is small
    assert (FAST in woken(resources, monkeypatch, site.task)) is small


def woken(resources: Resources, monkeypatch: pytest.MonkeyPatch, task: UUID, **given: Any) -> list[str]:
    """The queues of the messages that wake workers for a task."""
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda *_, queue, **__: sent.append(queue))
    dispatch.wake(resources.pool, task, **given)
    return sent


def test_a_message_on_the_fast_queue_serves_the_small_task_that_waits_most(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = listed_site(resources, SMALL_TASK + 1), listed_site(resources)
    for site in (large, small):
        tasks.refresh(resources.pool, site.task, site.index.id)
    taken: list[tuple[UUID, str]] = []
    monkeypatch.setattr(process, "resources", lambda: resources)

    def index(task: UUID, queue: str) -> dict[str, Any]:
        taken.append((task, queue))
        return {"more": True}

    monkeypatch.setattr(index_task, "_index", index)
    index_task._index_small(large.task, "node")
    assert taken == [(small.task, FAST)]


@pytest.mark.parametrize(("number", "workers"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (33, MAX_SLICES)])
def test_one_worker_is_woken_for_every_few_files(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, number: int, workers: int
) -> None:
    site = listed_site(resources, number)
    tasks.refresh(resources.pool, site.task, site.index.id)
    assert woken(resources, monkeypatch, site.task).count(BULK) == workers
    assert woken(resources, monkeypatch, site.task, max_messages=1).count(BULK) == 1


@pytest.mark.parametrize(
    ("inputs", "concurrency", "claimed"), [(1, 1, 32), (8, 4, 32), (11, 3, 33), (48, 4, 192), (193, 1, 192)]
)
def test_a_claim_holds_a_file_for_each_text_in_flight(inputs: int, concurrency: int, claimed: int) -> None:
    class Model:
        max_inputs = inputs

    class Slice:
        embedder = Model()

    made: Any = Slice()
    made.concurrency = concurrency
    assert claim_files(made) == claimed


@pytest.mark.parametrize(("most", "taken"), [(3, 3), (4, 4), (5, 4)])
def test_a_claim_is_bounded_by_files(resources: Resources, most: int, taken: int) -> None:
    site = listed_site(resources, 4)
    assert len(site.claim(site.worker(), most)) == taken


@pytest.mark.parametrize(("spare", "taken"), [(-1, 1), (0, 2), (1, 2)])
def test_a_claim_is_bounded_by_bytes(resources: Resources, spare: int, taken: int) -> None:
    """A file is claimed only if its bytes fit after those before it. The first one is claimed whatever its size."""
    site = listed_site(resources, 3)
    sizes = [size for (size,) in site.do("SELECT size_bytes FROM search_index_file WHERE index_id = %s", site.index.id)]
    assert len({*sizes}) == 1
    run = site.worker()
    values: dict[str, Any] = {"task_id": site.task, "index_id": run.index.id, "owner": run.lease.owner}
    assert len(files.claim(site.pool, **values, max_files=9, max_bytes=sizes[0] + 1 + spare)) == taken


def set_sizes(site: Site, sizes: Sequence[int]) -> None:
    """Give the listed files these sizes, as if they had been listed with them."""
    found = site.do("SELECT id FROM search_index_file WHERE index_id = %s ORDER BY path", site.index.id)
    for (id_,), size in zip(found, sizes, strict=True):
        site.do("UPDATE search_index_file SET size_bytes = %s WHERE id = %s", size, id_)


def taken(sizes: list[int], most_files: int, most_bytes: int) -> list[int]:
    """The sizes of the files that a claim takes of those that wait."""
    chosen: list[int] = []
    if len(sizes) < most_files:
        most_bytes = min(most_bytes, max(sum(sizes) // 2, most_bytes // 16, SMALL_BYTES))
    for size in sorted(sizes)[:most_files]:
        if chosen and (sum(chosen) >= most_bytes or size > max(2 * sum(chosen), SMALL_BYTES)):
            break
        chosen.append(size)
    return chosen


@pytest.mark.parametrize("seed", range(12))
def test_small_files_are_claimed_first_and_wait_for_no_large_one(resources: Resources, seed: int) -> None:
    random = Random(seed)
    kinds = [0, 9, 300, SMALL_BYTES, SMALL_BYTES + 1, SMALL_BYTES * 2, SMALL_BYTES * 2 + 1, SMALL_BYTES * 9, 10**9]
    sizes = random.choices(random.sample(kinds, 4), k=12)
    site = listed_site(resources, len(sizes))
    set_sizes(site, sizes)
    run = site.worker()
    values: dict[str, Any] = {"task_id": site.task, "index_id": run.index.id, "owner": run.lease.owner}
    while sizes:
        most_files, most_bytes = random.randint(1, 16), random.choice([1, 10**5, 3 * 10**5, 10**6, 10**7, 10**10])
        claims = files.claim(site.pool, **values, max_files=most_files, max_bytes=most_bytes)
        expected = taken(sizes, most_files, most_bytes)
        assert sorted(claim.size_bytes for claim in claims) == expected
        for size in expected:
            sizes.remove(size)


@pytest.mark.parametrize(
    ("size", "number", "most_bytes", "claims"),
    [
        # halves, but no fewer bytes than a sixteenth of a full claim, or 64 KB
        (100_000, 20, 10_000_000, [10, 7, 3]),
        (10_000, 10, 160_000, [7, 3]),
        (10_000, 10, 20_000, [2] * 5),
        (10, 10, 160_000, [10]),
    ],
)
def test_the_last_files_are_left_to_several_workers(
    resources: Resources, size: int, number: int, most_bytes: int, claims: list[int]
) -> None:
    site = listed_site(resources, number)
    set_sizes(site, [size] * number)
    run = site.worker()
    values: dict[str, Any] = {"task_id": site.task, "index_id": run.index.id, "owner": run.lease.owner}
    claim = partial(files.claim, site.pool, **values, max_files=number + 1, max_bytes=most_bytes)
    assert [len(claim()) for _ in range(len(claims) + 1)] == [*claims, 0]


@pytest.mark.parametrize(("first", "expected"), [(1, [1, 2, 4, 5, 5]), (4, [4, 5, 5, 5, 5]), (6, [6, 6, 6, 6, 6])])
def test_claims_of_a_slice_grow_up_to_a_bound(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, first: int, expected: list[int]
) -> None:
    site = listed_site(resources, 5)
    asked: list[int] = []
    claim = files.claim

    def record(*args: Any, **bounds: Any) -> Any:
        asked.append(bounds["max_bytes"])
        return claim(*args, **bounds)

    monkeypatch.setattr(files, "claim", record)
    monkeypatch.setattr(claim_turns, "MAX_GROWN_BYTES", 5)
    turns = ClaimTurns(site.worker(), site.task, max_files=1, max_bytes=first)
    assert [len(turns.claim()) for _ in range(5)] == [1] * 5
    assert asked == expected


def test_small_files_that_are_listed_meanwhile_come_before_large_ones(resources: Resources) -> None:
    site = listed_site(resources, 5)
    large = 10 * SMALL_BYTES
    set_sizes(site, [1, 2, large, large + 1, 3 * large])
    late = site.do("SELECT id FROM search_index_file WHERE index_id = %s AND size_bytes = 1", site.index.id)[0][0]
    site.do("UPDATE search_index_file SET status = 'indexed' WHERE id = %s", late)
    turns = ClaimTurns(site.worker(), site.task, max_files=1, max_bytes=1)
    sizes = [turns.claim()[0].size_bytes]
    site.do("UPDATE search_index_file SET status = 'pending' WHERE id = %s", late)
    while claims := turns.claim():
        sizes += [claim.size_bytes for claim in claims]
    assert sizes == [2, 1, large, large + 1, 3 * large]
