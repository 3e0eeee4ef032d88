"""When a watch looks again and when it starts runs, by a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs

from worker.ignore import EVERYTHING
from worker.resources import Resources
from worker.sources.changes_seen import ANYTHING, NOTHING, NoticedChanges, SeenChanges
from worker.sources.local import LocalFolder, OpenedPlace
from worker.sources.watching import local, node_watch
from worker.sources.watching.local import UNWATCHED_SECONDS, WALK_SHARE, LocalWatch
from worker.sources.watching.node_watch import CHECK_SECONDS, NODES_SHARE, NodesWatch
from worker.state.index import changes
from worker.state.index.changes import QUIET, StartedTask
from worker.state.pool import Pool
from worker.upkeep import watch
from worker.upkeep.watch import (
    AWAY_SECONDS,
    CLOCK_SECONDS,
    TURN_SECONDS,
    PostgresOutage,
    Watcher,
)

ID, OTHER = UUID(int=1), UUID(int=2)
RESOURCES = cast(
    "Resources", SimpleNamespace(pool=None, settings=SimpleNamespace(watch_rest_seconds=60, s3_events_queue_url=None))
)
#: Less than any time that a test waits for, and more than what floats round.
MOMENT = 1e-6


@dataclass
class Now:
    """The time of the watch."""

    seconds: float = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    made = Now()
    for module in (watch, local, node_watch):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.parametrize("took", [0.0, 0.01, 2.0])
def test_a_tree_of_nodes_is_checked_in_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, now: Now, took: float
) -> None:
    checked: list[float] = []

    def check(*_: object) -> None:
        checked.append(now.seconds)
        now.seconds += took

    monkeypatch.setattr(changes, "look_at_nodes", check)
    followed = NodesWatch(lambda: cast("Pool", None), ID)
    followed.look()
    due = checked[0] + max(CHECK_SECONDS, took + took / NODES_SHARE)
    for seconds, times in ((due - MOMENT, 1), (due + MOMENT, 2)):
        now.seconds = seconds
        followed.look()
        assert len(checked) == times


@dataclass
class Heard:
    """A watched directory that reports what a test says."""

    took: float = 0.0
    place: OpenedPlace = field(default_factory=lambda: OpenedPlace("/f", (1, 1)))
    unheard: SeenChanges = NOTHING
    failed: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        self.ready, self.stale, self.ended = Event(), Event(), Event()
        self.seen = NOTHING

    def take(self) -> SeenChanges:
        seen, self.seen = self.seen, NOTHING
        return seen

    def close(self) -> None:
        self.closed = True


def never_open() -> LocalFolder:
    """The fixture `folders` opens folders instead."""
    raise AssertionError


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Heard]:
    """Those that a watch opens, one after another."""
    opened: list[Heard] = []

    def open_one(_self: object, _place: OpenedPlace) -> Any:
        opened.append(Heard(took=len(opened) + 1.0))
        return opened[-1]

    monkeypatch.setattr(LocalWatch, "_new_folder", open_one)
    monkeypatch.setattr(LocalWatch, "_place", lambda _: OpenedPlace("/f", (1, 1)))
    return opened


def test_a_folder_is_walked_anew_in_a_share_of_the_time(now: Now, folders: list[Heard]) -> None:
    followed = LocalWatch(never_open, EVERYTHING, Path("/h"), lambda: None)
    assert followed.look() is None
    folders[0].ready.set()
    assert followed.look() == NoticedChanges(ANYTHING, timedelta(0))
    for last in range(2):
        folders[last].stale.set()
        folders[last].unheard = SeenChanges(frozenset({"new"}))
        due = now.seconds + folders[last].took / WALK_SHARE
        for seconds, opened in ((due - MOMENT, last + 1), (due + MOMENT, last + 2)):
            now.seconds = seconds
            assert followed.look() is None
            assert len(folders) == opened
        folders[last + 1].ready.set()
        folders[last + 1].seen = SeenChanges(frozenset({"heard by the new one"}))
        noticed = followed.look()
        assert noticed is not None
        assert noticed.seen == SeenChanges(frozenset({"new", "heard by the new one"}))
        assert [folder.closed for folder in folders] == [True] * (last + 1) + [False]


@pytest.mark.parametrize("renewing", [False, True])
def test_a_folder_that_cannot_be_watched_is_listed_and_tried_again_later(
    now: Now, folders: list[Heard], renewing: bool
) -> None:
    followed = LocalWatch(never_open, EVERYTHING, Path("/h"), lambda: None)
    followed.look()
    if renewing:
        folders[0].ready.set()
        followed.look()
        folders[0].stale.set()
        now.seconds += 1000
        followed.look()
    folders[-1].failed = True
    folders[-1].ended.set()
    assert followed.look() == NoticedChanges(ANYTHING, timedelta(0))
    assert all(folder.closed for folder in folders)
    before, due = len(folders), now.seconds + UNWATCHED_SECONDS
    for seconds, more in ((due - MOMENT, 0), (due + MOMENT, 1)):
        now.seconds = seconds
        assert followed.look() is None
        assert len(folders) == before + more


def test_a_folder_that_vanished_is_told_once_and_watched_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, now: Now, folders: list[Heard]
) -> None:
    followed = LocalWatch(never_open, EVERYTHING, Path("/h"), lambda: None)
    for _ in range(2):
        monkeypatch.setattr(LocalWatch, "_place", lambda _: None)
        assert followed.look() == NoticedChanges(ANYTHING, timedelta(0))
        assert followed.look() is None
        monkeypatch.setattr(LocalWatch, "_place", lambda _: OpenedPlace("/f", (1, 1)))
        followed.look()
        folders[-1].ready.set()
        assert followed.look() == NoticedChanges(ANYTHING, timedelta(0))
        now.seconds += 1
    # another directory takes the name
    monkeypatch.setattr(LocalWatch, "_place", lambda _: OpenedPlace("/f", (1, 2)))
    followed.look()
    assert [folder.closed for folder in folders] == [True, True, False]


def test_a_run_starts_slightly_after_it_is_due_and_once(monkeypatch: pytest.MonkeyPatch, now: Now) -> None:
    started: list[UUID] = []
    sent: list[object] = []

    def start(_pool: object, index_id: UUID, rest: timedelta) -> StartedTask | None:
        started.append(index_id)
        assert rest == timedelta(seconds=60)
        return StartedTask(index_id, index_id) if index_id == ID else None

    waits = {ID: 0.1, OTHER: 0.2}
    monkeypatch.setattr(changes, "note_change", lambda _pool, index_id, **_: waits[index_id])
    monkeypatch.setattr(changes, "start", start)
    monkeypatch.setattr(watch, "post_plan", lambda *ids: sent.append(ids))
    watcher = Watcher(RESOURCES)
    noticed = NoticedChanges(SeenChanges(frozenset({"a"})), QUIET)
    watcher._followed = {id_: cast("LocalWatch", SimpleNamespace(look=lambda: noticed)) for id_ in (ID, OTHER)}
    watcher._note_changes()
    began, begun = now.seconds, list[UUID]()
    for wait, id_ in ((0.1, ID), (0.2, OTHER)):
        for seconds, runs in ((-MOMENT, []), (MOMENT, [id_]), (2 * MOMENT, [])):
            now.seconds = began + wait + CLOCK_SECONDS + seconds
            with capture_logs() as logs:
                watcher._start_runs()
            assert logs == []
            begun += runs
            assert started == begun
    # the second joined a task that was open
    assert len(sent) == 1


def test_attempts_to_reach_postgres_become_rarer_up_to_a_bound_and_begin_anew() -> None:
    outage, error = PostgresOutage(), psycopg.OperationalError("gone")
    for _ in range(2):
        with capture_logs() as logs:
            outage.end()
            pauses = [outage.note_failure(error) for _ in range(6)]
            outage.end()
        assert pauses == [TURN_SECONDS, 2 * TURN_SECONDS, 4 * TURN_SECONDS, *3 * [AWAY_SECONDS]]
        assert [entry["log_level"] for entry in logs] == ["warning", *5 * ["debug"], "info"]
