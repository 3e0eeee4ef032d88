"""Tasks that would fail forever end with the reason. Temporary faults are waited out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.errors import ProgramLimitExceeded
from psycopg.rows import dict_row
from structlog.testing import capture_logs

from schemas.content.document import ListingPage
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.errors import FoldexError, LeaseLost, SourceUnavailable, StoreUnavailable
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.database import do
from tests.integration.test_leases import index_of, new_task
from worker.app import BULK, app
from worker.embed.pace import EmbeddingPace
from worker.index import pipeline
from worker.index.run import IndexRun
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings
from worker.sources.local import LocalFolder
from worker.state.index import files, listings, task_notes, tasks, tools
from worker.state.pool import Pool
from worker.tasks import failures, process
from worker.tasks import index as index_task
from worker.tasks.plan import plan

PROFILE = EmbedderProfile(model=LOCAL_MODEL, dimensions=384)
SETTINGS = IndexSettings(embedder=PROFILE, chunks=ChunkSettings(), max_file_bytes=1000)


@pytest.fixture
def resources(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resources]:
    """The resources of tasks in this process. Messages are dropped, as if lost."""
    root = tmp_path / "root"
    root.mkdir()
    made = Resources(
        Settings(auth="off", database_url=database_url, foldex_home=tmp_path / "home", local_source_roots=[root])
    )
    monkeypatch.setattr(process, "resources", lambda: made)
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    # a listing leaves the files to the slices of a test
    monkeypatch.setattr("worker.tasks.plan.index_due", lambda _: {})
    # rendering tracebacks takes longer than these tests
    with made.pool, capture_logs():
        # a server that just started grants its clients time, and takes none of them for dead
        do(made.pool, "SELECT pg_sleep(greatest(0, 10.1 - extract(epoch FROM now() - pg_postmaster_start_time())))")
        yield made
        do(made.pool, "DELETE FROM store_directory")


@pytest.fixture
def task(resources: Resources) -> UUID:
    """A task over a folder of three files."""
    (root,) = resources.settings.local_source_roots
    for name in ("a", "b", "c"):
        (root / f"{name}.md").write_text(f"# {name}\n\nSome text.\n")
    source = LocalSource(kind="local", path=str(root))
    wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", SETTINGS, "lancedb", "store")
    _, made = tools.create(resources.pool, wanted, name="", config=ToolConfig())
    assert made is not None
    return made


def state(resources: Resources, task: UUID) -> dict[str, Any]:
    with resources.pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        (found,) = cursor.execute("SELECT * FROM search_index_task WHERE id = %s", (task,))
    return found


def let_leases_end(resources: Resources, task: UUID) -> None:
    """Make each lease look as if it was last renewed 8 s ago."""
    do(resources.pool, "UPDATE search_index_task SET plan_until = now() - interval '1 ms' WHERE id = %s", task)
    do(resources.pool, "DELETE FROM file_lease")
    do(resources.pool, "UPDATE search_index_task SET fault_at = now() - interval '1 min' WHERE id = %s", task)


def fail_listing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object) -> ListingPage:
        raise error

    monkeypatch.setattr(LocalFolder, "list", fail)


@pytest.mark.parametrize(
    "error",
    [KeyError("a mistake"), MemoryError(), ProgramLimitExceeded("too long")],
    ids=["mistake", "memory", "limit"],
)
def test_a_listing_that_always_fails_ends_the_task(
    resources: Resources, task: UUID, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with monkeypatch.context() as broken:
        fail_listing(broken, error)
        for _ in range(tasks.MAX_PLAN_DEATHS):
            with suppress(failures.RunFailed):
                plan(str(task))
            assert state(resources, task)["status"] == "indexing"
            assert plan(str(task)) == {"nothing": "to list"}
            let_leases_end(resources, task)
        with pytest.raises(failures.RunFailed, match=r"^plan_crashed: "):
            plan(str(task))
    ended = state(resources, task)
    assert (ended["status"], ended["error_code"]) == ("error", "plan_crashed")
    assert type(error).__name__ in ended["error"]
    # a retry is not judged by it
    again = retried(resources, ended["tool_id"])
    assert plan(str(again)) == {"listed": True}


def retried(resources: Resources, tool_id: UUID) -> UUID:
    with resources.pool.connection() as connection:
        index_id = do(resources.pool, "SELECT index_id FROM search_tool WHERE id = %s", tool_id)[0][0]
        found = tasks.retry(connection, tool_id=tool_id, index_id=index_id, folder_node_id="h.1")
    assert found is not None
    return found.id


def test_a_listing_that_ends_each_process_ends_the_task(resources: Resources, task: UUID) -> None:
    for _ in range(tasks.MAX_PLAN_DEATHS):
        assert tasks.begin_plan(resources.pool, task, uuid4()) is not None
        let_leases_end(resources, task)
    with pytest.raises(failures.RunFailed, match=r"^plan_crashed: "):
        plan(str(task))
    assert "out of memory" in state(resources, task)["error"]


@pytest.mark.parametrize(
    "error", [psycopg.OperationalError("away"), SourceUnavailable("down"), StoreUnavailable("down")]
)
def test_a_listing_that_waits_goes_on_for_as_long_as_it_takes(
    resources: Resources, task: UUID, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with monkeypatch.context() as broken:
        fail_listing(broken, error)
        for _ in range(tasks.MAX_PLAN_DEATHS + 1):
            plan(str(task))
            let_leases_end(resources, task)
    assert state(resources, task)["status"] == "indexing"
    assert plan(str(task)) == {"listed": True}


def record(pool: Pool, task: UUID, owner: UUID, cursor: str | None, *, first: bool = False) -> None:
    page: dict[str, Any] = {"task_id": task, "index_id": index_of(pool, task), "owner": owner}
    listings.record_page(pool, **page, listed=(), cursor=cursor, unlisted=(), ignored={}, matched=(), first=first)


def begun(pool: Pool, task: UUID) -> tuple[UUID, int]:
    """A new owner of the listing, and the deaths before it."""
    owner = uuid4()
    plan = tasks.begin_plan(pool, task, owner)
    assert plan is not None
    return owner, plan.deaths


def test_a_listing_that_comes_further_each_time_is_not_given_up(resources: Resources, task: UUID) -> None:
    pool = resources.pool
    for page in range(2 * tasks.MAX_PLAN_DEATHS):
        owner, deaths = begun(pool, task)
        assert deaths == min(page, 1)
        record(pool, task, owner, str(page), first=page == 0)
        let_leases_end(resources, task)


def test_a_listing_that_dies_at_its_end_and_begins_anew_does_not_come_further(resources: Resources, task: UUID) -> None:
    pool = resources.pool
    for attempt in range(tasks.MAX_PLAN_DEATHS):
        owner, deaths = begun(pool, task)
        assert deaths == attempt
        record(pool, task, owner, "1", first=True)
        record(pool, task, owner, None)
        let_leases_end(resources, task)
    assert begun(pool, task)[1] == tasks.MAX_PLAN_DEATHS


def test_a_process_that_wakes_up_was_not_dead(resources: Resources, task: UUID) -> None:
    pool = resources.pool
    slow, _ = begun(pool, task)
    let_leases_end(resources, task)
    owner, deaths = begun(pool, task)
    assert deaths == 1
    with pytest.raises(LeaseLost):
        record(pool, task, slow, "1", first=True)
    tasks.release_plan(pool, task, slow)
    # the working process keeps its lease
    assert state(resources, task)["plan_owner"] == owner
    tasks.release_plan(pool, task, owner)
    assert begun(pool, task)[1] == 0


def test_a_server_that_was_away_is_no_death(resources: Resources, task: UUID) -> None:
    pool = resources.pool
    for _ in range(tasks.MAX_PLAN_DEATHS):
        begun(pool, task)
        # last renewed before the server started
        do(
            pool,
            "UPDATE search_index_task SET plan_until = pg_postmaster_start_time() + interval '7 s' WHERE id = %s",
            task,
        )
    assert begun(pool, task)[1] == 0


@pytest.fixture
def listed(resources: Resources, task: UUID) -> UUID:
    assert plan(str(task)) == {"listed": True}
    return task


def test_slices_that_always_fail_before_they_claim_end_the_task(
    resources: Resources, listed: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_FAULTS", 3)

    def fail(*_: object, **__: object) -> None:
        raise ValueError("the model's files are torn")

    with monkeypatch.context() as broken:
        broken.setattr(resources, "embedder", fail)
        for _ in range(tasks.MAX_FAULTS - 1):
            # concurrent failures count once
            for _ in range(tasks.MAX_FAULTS):
                with pytest.raises(ValueError, match="torn"):
                    index_task._index(listed, BULK)
            assert state(resources, listed)["status"] == "indexing"
            let_leases_end(resources, listed)
        with pytest.raises(ValueError, match="torn"):
            index_task._index(listed, BULK)
    ended = state(resources, listed)
    assert (ended["status"], ended["error_code"]) == ("error", "slice_crashed")
    assert "ValueError: the model's files are torn" in ended["error"]


def test_a_file_that_ends_makes_faults_begin_anew(resources: Resources, listed: UUID) -> None:
    pool = resources.pool
    for number in (1, 2, 3):
        assert task_notes.count_fault(pool, listed, "a mistake") == number
        let_leases_end(resources, listed)
    task_notes.clear_warning(pool, listed)
    assert task_notes.count_fault(pool, listed, "a mistake") == 1
    assert state(resources, listed)["fault"] == "a mistake"


def test_slices_that_wait_are_never_given_up(
    resources: Resources, listed: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_FAULTS", 2)
    errors: list[Exception] = [StoreUnavailable("down"), psycopg.OperationalError("away")]
    for error in errors * 2:

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        with monkeypatch.context() as broken:
            broken.setattr(pipeline, "index_files", fail)
            try:
                index_task._index(listed, BULK)
            except psycopg.OperationalError:
                assert not isinstance(error, FoldexError)
        let_leases_end(resources, listed)
    assert (state(resources, listed)["status"], state(resources, listed)["faults"]) == ("indexing", 0)


def test_a_file_whose_indexing_fails_unexpectedly_is_given_up_before_its_task(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes after parsing, so at first all files that were claimed together look alike."""
    pool, task = resources.pool, new_task(resources.pool)
    bad = min(id_ for (id_,) in do(pool, "SELECT id FROM search_index_file WHERE task_id = %s", task))

    def fail_if_bad(run: Any, claims: list[files.FileClaim], *_: object, **_how: object) -> list[object]:
        files.note_parsed(run.pool, run.lease.owner)
        if bad in {claim.id for claim in claims}:
            raise KeyError("a mistake")
        do(pool, "UPDATE search_index_file SET status = 'skipped' WHERE id = ANY (%s)", [claim.id for claim in claims])
        return []

    monkeypatch.setattr(pipeline, "index_files", fail_if_bad)
    monkeypatch.setattr(
        index_task,
        "_open_run",
        lambda r, _task, index, lease, _queue: IndexRun(
            index=index,
            epoch=0,
            source=Mock(),
            tokenizer=Mock(),
            embedder=Mock(),
            store=Mock(),
            pool=r.pool,
            lease=lease,
            concurrency=1,
            limits=Mock(),
            pace=EmbeddingPace(),
            left_bytes=math.inf,
        ),
    )
    monkeypatch.setattr(pipeline, "claim_files", lambda _: 10)
    monkeypatch.setattr(pipeline, "claim_bytes", lambda _: 1000)
    rounds = 0
    while state(resources, task)["status"] == "indexing":
        rounds += 1
        assert rounds < tasks.MAX_FAULTS + 10
        with suppress(failures.RunFailed):
            failures.contain(task, lambda id_: index_task._index(id_, BULK))
        let_leases_end(resources, task)
        files.return_expired(pool)
        tasks.refresh(pool, task, index_of(pool, task))
    outcomes = do(pool, "SELECT id = %s, status, reason FROM search_index_file WHERE task_id = %s", bad, task)
    assert sorted(outcomes) == [(False, "skipped", None)] * 5 + [(True, "failed", "crashed")]
    assert state(resources, task)["error_code"] != "slice_crashed"
