"""What Flower is told of a run that failed."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded
from structlog.testing import capture_logs

from schemas.errors import FoldexError, LlmUnavailable, SliceOver, StoreUnauthorized, StoreUnavailable
from worker import dispatch
from worker.app import BULK, NO_EVENTS, app, send
from worker.index.lease import Lease
from worker.state.index import files, messages, task_notes, tasks, turns
from worker.state.index.tasks import RunningTask
from worker.state.pool import Pool
from worker.state.tree import trees
from worker.state.tree.trees import TreeBuild
from worker.tasks import failures, leaving, process, upkeep
from worker.tasks import index as index_task
from worker.tasks import plan as plan_task
from worker.tasks import tree as tree_task
from worker.tree.lease import TreeLease


def result_of(name: str, *args: str) -> Any:
    """The result with which a worker would report the task."""
    return app.tasks[name].apply(args=args)


def raising(error: Exception) -> Callable[..., dict[str, Any]]:
    def fail(*_: object, **__: object) -> dict[str, Any]:
        raise error

    return fail


def test_a_task_that_ends_as_error_is_a_failure_with_its_reason_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_task, "_plan", lambda _: {"error": "folder_gone", "reason": "Choose another folder."})
    done = result_of("foldex.plan", str(uuid4()))
    assert (done.state, repr(done.result)) == ("FAILURE", "folder_gone: Choose another folder.")
    assert done.traceback == ""


def test_a_bug_is_a_failure_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[UUID] = []
    monkeypatch.setattr(process, "resources", lambda: type("R", (), {"pool": None}))
    monkeypatch.setattr(task_notes, "warn", lambda _pool, task_id, _warning: warned.append(task_id))
    monkeypatch.setattr(plan_task, "_plan", raising(KeyError("a mistake")))
    task = uuid4()
    with capture_logs() as logged:
        done = result_of("foldex.plan", str(task))
    assert (done.state, repr(done.result)) == ("FAILURE", "KeyError: 'a mistake'")
    assert done.traceback.splitlines()[-1] == "KeyError: 'a mistake'"
    assert warned == [task]
    assert [line["event"] for line in logged] == ["slice failed"]


def test_a_bug_in_the_build_of_a_tree_is_a_failure_and_warns_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[UUID] = []
    monkeypatch.setattr(process, "resources", lambda: type("R", (), {"pool": None}))
    monkeypatch.setattr(trees, "warn", lambda _pool, tree_id, _warning: warned.append(tree_id))
    monkeypatch.setattr(tree_task, "_build_alone", raising(KeyError("a mistake")))
    tree = uuid4()
    done = result_of("foldex.tree", str(tree))
    assert (done.state, repr(done.result)) == ("FAILURE", "KeyError: 'a mistake'")
    assert warned == [tree]


def test_a_run_that_waits_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_task, "_plan", lambda _: {"waiting": "embedding_unavailable"})
    assert result_of("foldex.plan", str(uuid4())).result == {"waiting": "embedding_unavailable"}


def test_a_failure_crosses_processes() -> None:
    failed = pickle.loads(pickle.dumps(failures.RunFailed("code: reason", "trace")))
    assert (repr(failed), failed.trace) == ("code: reason", "trace")


def test_the_message_of_a_failed_run_is_acknowledged() -> None:
    assert all(
        app.tasks[name].acks_on_failure_or_timeout
        for name in ("foldex.index", "foldex.plan", "foldex.tree", "foldex.evict")
    )
    assert app.conf.task_acks_late


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (psycopg.OperationalError("away"), "released at once"),
        (ProgramLimitExceeded("too long"), "released for later"),
        (KeyError("a mistake"), "released for later"),
    ],
    ids=["outage", "limit", "mistake"],
)
def test_a_build_of_a_tree_waits_for_postgres_and_counts_what_always_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: str
) -> None:
    faults, outcomes = [0], list[str]()

    def release(_pool: Any, _id: UUID, _owner: UUID, seconds: float = 0) -> None:
        outcomes.append("released for later" if seconds else "released at once")

    def count_fault(*_: object) -> int:
        faults[0] += 1
        return faults[0]

    monkeypatch.setattr(trees, "release", release)
    monkeypatch.setattr(trees, "count_fault", count_fault)
    monkeypatch.setattr(trees, "fail", lambda _pool, _id, ended: outcomes.append(ended.code))
    monkeypatch.setattr(trees, "begin", lambda *_: SimpleNamespace(id=uuid4(), project_id="p", deaths=0))
    monkeypatch.setattr(turns, "take", lambda *_: None)
    monkeypatch.setattr(tree_task, "tree_leased", lambda *_: nullcontext(SimpleNamespace(owner=uuid4())))
    monkeypatch.setattr(tree_task, "_index", raising(error))
    resources: Any = SimpleNamespace(pool=None, settings=SimpleNamespace(database=None))
    for _ in range(trees.MAX_FAULTS):
        with pytest.raises(type(error)):
            tree_task._build(resources, uuid4(), cast("Any", None))
    last = outcome if outcome == "released at once" else "tree_crashed"
    assert outcomes == [*[outcome] * (trees.MAX_FAULTS - 1), last]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (psycopg.OperationalError("away"), ["released"]),
        # the lease of the one file expires, until it is tried alone
        (ProgramLimitExceeded("too long"), []),
        (KeyError("a mistake"), ["counted"]),
    ],
    ids=["outage", "limit", "mistake"],
)
def test_a_slice_waits_for_postgres_and_counts_what_may_hit_every_file(
    monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: list[str]
) -> None:
    outcomes: list[str] = []

    def count_fault(*_: object) -> int:
        outcomes.append("counted")
        return 1

    monkeypatch.setattr(files, "release", lambda *_: outcomes.append("released"))
    monkeypatch.setattr(task_notes, "count_fault", count_fault)
    task, lease = SimpleNamespace(id=uuid4()), SimpleNamespace(owner=uuid4())
    index_task._record_fault(cast("Pool", None), cast("RunningTask", task), cast("Lease", lease), error)
    assert outcomes == outcome


def test_a_slice_tries_each_task_whose_rows_are_locked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = uuid4(), uuid4()
    tried: list[UUID] = []

    def is_locked(task_id: UUID, **_: object) -> dict[str, Any]:
        tried.append(task_id)
        assert len(tried) <= 2
        raise LockNotAvailable

    # nobody could note that they were passed over, so they stay due
    due = cycle([one, other])
    monkeypatch.setattr(process, "resources", lambda: SimpleNamespace(pool=None))
    monkeypatch.setattr(index_task, "_due", lambda *_, **__: next(due))
    monkeypatch.setattr(index_task, "_index", is_locked)
    monkeypatch.setattr(messages, "pass_over", lambda *_: None)
    assert index_task._serve(cast("Pool", None), one, BULK) is failures.LOCKED
    assert tried == [one, other]


@pytest.mark.parametrize(("complete", "outcomes"), [(True, []), (False, ["released", "sent"])])
def test_a_build_that_is_not_complete_goes_on_in_the_next_slice(
    monkeypatch: pytest.MonkeyPatch, complete: bool, outcomes: list[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(trees, "begin", lambda *_: SimpleNamespace(id=uuid4(), project_id="p", deaths=0))
    monkeypatch.setattr(trees, "release", lambda *_: done.append("released"))
    monkeypatch.setattr(tree_task, "send_messages", lambda _: done.append("sent"))
    monkeypatch.setattr(turns, "take", lambda *_: None)
    monkeypatch.setattr(tree_task, "tree_leased", lambda *_: nullcontext(SimpleNamespace(owner=uuid4())))
    for step in ("_index", "_needs", "_open_run"):
        monkeypatch.setattr(tree_task, step, lambda *_: None)
    monkeypatch.setattr(leaving, "leave_if_lacking", lambda *_: False)
    monkeypatch.setattr(tree_task, "build_slice", lambda *_: complete)
    resources: Any = SimpleNamespace(pool=None, settings=SimpleNamespace(database=None))
    assert tree_task._build(resources, uuid4(), cast("Any", None)) == {"complete": complete}
    assert done == outcomes


# --- upkeep


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The events that upkeep sends by itself."""
    events: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(upkeep.Upkeep, "send_event", lambda _, type_, **fields: events.append((type_, fields)))
    monkeypatch.setattr(upkeep.Upkeep, "request", type("Request", (), {"is_eager": False, "argsrepr": "(shown)"}))
    return events


def test_upkeep_that_did_nothing_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, shown: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(upkeep, "_evict", lambda: {"evicted": 0})
    assert upkeep.evict() == {"evicted": 0}
    assert shown == []


def test_upkeep_that_did_something_is_shown(
    monkeypatch: pytest.MonkeyPatch, shown: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(upkeep, "_evict", lambda: {"evicted": 7})
    upkeep.evict()
    assert [type_ for type_, _ in shown] == ["task-received", "task-started", "task-succeeded"]
    assert (shown[0][1]["name"], shown[0][1]["args"]) == ("foldex.evict", "(shown)")
    assert shown[2][1]["result"] == "{'evicted': 7}"


def test_upkeep_that_failed_is_shown_as_failed(
    monkeypatch: pytest.MonkeyPatch, shown: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(upkeep, "_delete_strays", raising(StoreUnavailable("It is down.")))
    with pytest.raises(failures.RunFailed):
        upkeep.strays()
    assert shown[-1] == ("task-failed", {"exception": "store_unavailable: It is down.", "traceback": ""})


@pytest.mark.parametrize(
    ("name", "work", "args"),
    [
        ("foldex.evict", "_evict", ()),
        ("foldex.optimize", "_optimize", (str(uuid4()),)),
        ("foldex.check", "_check", (str(uuid4()),)),
        ("foldex.strays", "_delete_strays", ()),
    ],
)
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (psycopg.OperationalError("away"), None),
        (StoreUnavailable("It is down."), "store_unavailable: It is down."),
        (KeyError("a mistake"), "KeyError: 'a mistake'"),
    ],
    ids=["outage", "refusal", "mistake"],
)
def test_upkeep_waits_for_postgres_and_says_what_else_fails(
    monkeypatch: pytest.MonkeyPatch, name: str, work: str, args: tuple[str, ...], error: Exception, told: str | None
) -> None:
    monkeypatch.setattr(upkeep, work, raising(error))
    result = result_of(name, *args)
    if told is None:
        assert result.result == {"skipped": "postgres"}
    else:
        assert isinstance(result.result, failures.RunFailed)
        assert str(result.result) == told


@pytest.mark.parametrize("quiet", [True, False])
def test_a_quiet_message_is_not_announced(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    options: list[dict[str, Any]] = []
    monkeypatch.setattr(app, "send_task", lambda _name, **given: options.append(given))
    send("foldex.evict", queue="bulk", shown="", quiet=quiet)
    assert (options[0].get("event_dispatcher") is NO_EVENTS) is quiet


@pytest.mark.parametrize(
    ("error", "seconds", "done"),
    [
        (StoreUnavailable("away"), 3.0, ["warn", "sent"]),
        (StoreUnavailable("away", retry_after=2), 3.0, ["warn", "sent"]),
        (StoreUnavailable("away", retry_after=4), 4.0, ["warn", "sent"]),
        (StoreUnavailable("away", retry_after=1e9), tasks.LONGEST_WAIT.total_seconds(), ["warn", "sent"]),
        (SliceOver("more"), 0, []),
        (StoreUnauthorized("no"), None, ["fail"]),
    ],
)
def test_a_slice_is_repeated_after_what_may_pass(
    monkeypatch: pytest.MonkeyPatch, error: FoldexError, seconds: float | None, done: list[str]
) -> None:
    calls: list[tuple[str, object]] = []
    monkeypatch.setattr(task_notes, "warn", lambda *given: calls.append(("warn", given[-1])))
    monkeypatch.setattr(messages, "note_sent", lambda *given: calls.append(("sent", given[-1])))
    monkeypatch.setattr(tasks, "fail", lambda *given: calls.append(("fail", given[-1])))
    monkeypatch.setattr(dispatch, "send_next", lambda _: None)
    task = SimpleNamespace(id=uuid4(), index_id=uuid4())
    assert failures.settle(cast("Pool", None), cast("RunningTask", task), error).retry_seconds == seconds
    assert [name for name, _ in calls] == done
    # the sweep leaves the task alone for as long
    assert [given for name, given in calls if name == "sent"] == [seconds for name in done if name == "sent"]


@pytest.mark.parametrize(
    ("asked", "seconds"), [(None, 3.0), (4, 4.0), (1e9, tasks.LONGEST_WAIT.total_seconds()), (math.inf, 600.0)]
)
def test_a_tree_waits_no_longer_than_the_sweep_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, seconds: float
) -> None:
    waits: list[object] = []
    monkeypatch.setattr(trees, "warn", lambda *_: None)
    monkeypatch.setattr(trees, "release", lambda *given: waits.append(given[-1]))
    build, lease = SimpleNamespace(id=uuid4()), SimpleNamespace(owner=uuid4())
    error = LlmUnavailable("busy", retry_after=asked)
    tree_task._settle(cast("Pool", None), cast("TreeBuild", build), cast("TreeLease", lease), error)
    assert waits == [seconds]
