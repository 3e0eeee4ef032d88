"""What a sweep sends, counts and ends."""

from __future__ import annotations

from collections import Counter
from uuid import UUID, uuid4

import pytest

from tests.integration.database import do
from tests.integration.steps.site import listed_site, new_site, passes
from worker.app import BULK, FAST, MAX_SLICES, app
from worker.dispatch import FILES_PER_SLICE
from worker.resources import Resources
from worker.state.index import counting, messages, tasks
from worker.upkeep import open_tasks
from worker.upkeep.sweep import sweep

pytestmark = pytest.mark.usefixtures("nobody_else")


class Sweeps:
    """Sweep without a broker, and record the messages."""

    def __init__(self, resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resources = resources
        self.sent: list[tuple[str, list[str]]] = []
        #: The number of messages to index by queue.
        self.slices: Counter[str] = Counter()
        self.waiting = {BULK: 0, FAST: 0}
        monkeypatch.setattr(app, "send_task", self._send)
        monkeypatch.setattr(open_tasks, "count_queued", self.waiting.__getitem__)
        monkeypatch.setattr(open_tasks, "crowded", lambda _: False)

    def _send(self, name: str, args: list[str], *, queue: str, **_: object) -> None:
        self.sent.append((name, args))
        self.slices[queue] += name == "foldex.index"

    @property
    def planned(self) -> list[UUID]:
        """The tasks whose listing was asked for, ever."""
        return [UUID(args[0]) for name, args in self.sent if name == "foldex.plan"]

    def round(self) -> list[UUID]:
        """The tasks that workers are woken for."""
        before = len(self.sent)
        done = sweep(self.resources)
        assert all(isinstance(value, int) for value in done.values()), done
        return list(dict.fromkeys(UUID(args[0]) for name, args in self.sent[before:] if name == "foldex.index"))


@pytest.fixture
def sweeps(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(resources, monkeypatch)


def test_a_sweep_gives_a_message_time_before_it_sends_another(resources: Resources, sweeps: Sweeps) -> None:
    site = listed_site(resources)
    messages.note_sent(resources.pool, site.task)
    assert sweeps.round() == []
    # the rest leaves a busy machine time
    passes(resources, messages.RESEND_AFTER.total_seconds() / 2)
    assert sweeps.round() == []
    passes(resources, messages.RESEND_AFTER.total_seconds() / 2)
    assert sweeps.round() == [site.task]


def test_a_sweep_leaves_a_task_alone_until_its_provider_may_be_asked_again(
    resources: Resources, sweeps: Sweeps
) -> None:
    site = listed_site(resources)
    messages.note_sent(resources.pool, site.task, 60)
    passes(resources, 60)
    assert sweeps.round() == []
    passes(resources, messages.RESEND_AFTER.total_seconds() + 0.1)
    assert sweeps.round() == [site.task]


def test_a_sweep_wakes_nobody_for_a_task_that_has_its_workers(resources: Resources, sweeps: Sweeps) -> None:
    site = listed_site(resources, MAX_SLICES + 1)
    for _ in range(MAX_SLICES - 1):
        assert site.claim(site.worker(), 1)
    passes(resources, 60)
    assert sweeps.round() == [site.task]
    assert site.claim(site.worker(), 1)
    passes(resources, 60)
    assert sweeps.round() == []


@pytest.mark.parametrize(
    ("left", "slices", "untaken", "messages"),
    [
        # as many more as are at work
        (100_000, 10, 0, 10),
        (100_000, 10, 4, 6),
        (100_000, 10, 10, 0),
        (100_000, 2, 0, MAX_SLICES),
        # a slice for each so many files
        (11 * messages.FILES_PER_FURTHER_SLICE, 10, 0, 1),
        (11 * messages.FILES_PER_FURTHER_SLICE - 1, 10, 0, 0),
    ],
)
def test_a_large_task_gets_more_workers_as_long_as_they_come(
    resources: Resources, sweeps: Sweeps, left: int, slices: int, untaken: int, messages: int
) -> None:
    site = listed_site(resources, 60)
    for _ in range(slices):
        assert site.claim(site.worker(), 1)
    site.refresh()
    # the sweep does not count what takes long
    site.do("UPDATE search_index_task SET total_files = %s, refresh_seconds = 10 WHERE id = %s", left, site.task)
    passes(resources, 60)
    sweeps.waiting[BULK] = untaken
    sweeps.round()
    assert sweeps.sent.count(("foldex.index", [str(site.task)])) == messages


@pytest.mark.parametrize(
    ("files", "bulk", "fast"),
    [
        (3, 0, 0),
        (3, MAX_SLICES, 1),
        (3, 2, MAX_SLICES),
        # several messages for each task
        (3 * FILES_PER_SLICE, 0, 0),
        (3 * FILES_PER_SLICE, 3, 1),
    ],
)
def test_a_sweep_sends_no_more_messages_for_many_tasks_than_for_one(
    resources: Resources, sweeps: Sweeps, files: int, bulk: int, fast: int
) -> None:
    sites = [listed_site(resources, files) for _ in range(MAX_SLICES + 1)]
    passes(resources, 60)
    sweeps.waiting |= {BULK: bulk, FAST: fast}
    assert {*sweeps.round()} <= {site.task for site in sites}
    # with those that wait already, on each of the two queues
    assert (sweeps.slices[BULK], sweeps.slices[FAST]) == (MAX_SLICES - bulk, MAX_SLICES - fast)


def test_a_sweep_counts_all_tasks_that_are_due(resources: Resources, sweeps: Sweeps) -> None:
    sites = [listed_site(resources, 2 + number) for number in range(3)]
    for site in sites:
        site.do("UPDATE search_index_file SET tokens = 5 WHERE index_id = %s AND path = '1.md'", site.index.id)
        # an earlier task paid for this file
        site.do(
            "UPDATE search_index_file SET status = 'skipped', tokens = 3, task_id = gen_random_uuid()"
            " WHERE index_id = %s AND path = '0.md'",
            site.index.id,
        )
    sweeps.round()
    counted = "SELECT total_files, skipped_files, tokens FROM search_index_task WHERE id = %s"
    assert [site.do(counted, site.task) for site in sites] == [[(2, 1, 5)], [(3, 1, 5)], [(4, 1, 5)]]


@pytest.mark.parametrize(
    ("counted", "changed", "seconds", "due"),
    [
        # after a pause as long as nothing had changed for
        (5, 9, 0, True),
        (5, 11, 0, False),
        (31, 3600, 0, True),
        (29, 3600, 0, False),
        # at most a hundredth of a core
        (49, 49, 0.5, False),
        (51, 51, 0.5, True),
        # what takes long is left to the workers
        (3600, 3600, counting.COUNT_SECONDS, False),
    ],
)
def test_a_task_that_does_not_change_is_counted_less_often(
    resources: Resources, counted: float, changed: float, seconds: float, due: bool
) -> None:
    site = listed_site(resources)
    site.do(
        "UPDATE search_index_task SET counted_at = now() - make_interval(secs => %s),"
        " moved_at = now() - make_interval(secs => %s), refresh_seconds = %s WHERE id = %s",
        *(counted, changed, seconds, site.task),
    )
    assert counting.refresh_due(resources.pool) == int(due)


def test_a_sweep_spends_little_time_on_counts(resources: Resources) -> None:
    for _ in range(3):
        site = listed_site(resources)
        seconds = 0.6 * counting.COUNT_SECONDS
        site.do("UPDATE search_index_task SET refresh_seconds = %s WHERE id = %s", seconds, site.task)
    assert [counting.refresh_due(resources.pool) for _ in range(3)] == [2, 1, 0]


def test_a_sweep_ends_a_task_of_which_nothing_is_left(resources: Resources, sweeps: Sweeps) -> None:
    site = listed_site(resources)
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s", site.index.id)
    assert sweeps.round() == []
    assert site.do("SELECT status FROM search_index_task WHERE id = %s", site.task) == [("ready",)]


def test_a_listing_that_nobody_works_on_is_asked_for_again(resources: Resources, sweeps: Sweeps) -> None:
    site = new_site(resources)
    sweeps.round()
    assert sweeps.planned == []
    passes(resources, messages.RESEND_AFTER.total_seconds() + 0.1)
    sweeps.round()
    assert sweeps.planned == [site.task]
    # it counts as sent
    sweeps.round()
    assert sweeps.planned == [site.task]
    passes(resources, messages.RESEND_AFTER.total_seconds() + 0.1)
    assert tasks.begin_plan(resources.pool, site.task, uuid4()) is not None
    sweeps.round()
    assert sweeps.planned == [site.task]
    # its worker died
    site.do("UPDATE search_index_task SET plan_until = now() - interval '1 s' WHERE id = %s", site.task)
    sweeps.round()
    assert sweeps.planned == [site.task] * 2


def test_a_sweep_asks_for_upkeep_that_is_due_once_an_interval(resources: Resources, sweeps: Sweeps) -> None:
    do(resources.pool, "DELETE FROM upkeep WHERE name IN ('strays', 'embedding_cache')")
    do(resources.pool, "DELETE FROM content_stray")

    def asked() -> tuple[int, int]:
        sweeps.round()
        return sweeps.sent.count(("foldex.strays", [])), sweeps.sent.count(("foldex.evict", []))

    assert asked() == (0, 1)
    do(resources.pool, "INSERT INTO content_stray (key, due_at) VALUES ('k', now() + interval '1 hour')")
    assert asked() == (0, 1)
    do(resources.pool, "UPDATE content_stray SET due_at = now()")
    assert asked() == asked() == (1, 1)
