"""Concurrent transactions: each locks in the order that `index_switch.lock_project` describes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from psycopg import Connection

from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.test_leases import _listed, claimed, index_of, new_task
from tests.service import eventually
from worker.state.content import orphans, uploads
from worker.state.content.uploads import ReceivedFile
from worker.state.index import changes, embedding_cache, index_switch, listings, tasks, tool_actions, tools
from worker.state.pool import Pool
from worker.state.queries import load

SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000)


def test_a_changed_config_and_a_schedule_that_is_due_do_not_deadlock(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recorded a change of the index and wants the tool; the other has the tool and wants to record a change."""
    wanted = tools.NewIndex(
        f"p-{uuid4().hex}", NodesSource(kind="nodes", node_id="n"), "n", SETTINGS, "lancedb", "store"
    )
    config = ToolConfig(every=3600)
    tool, _ = tools.create(pool, wanted, name="", config=config)
    with pool.connection() as connection:
        connection.execute("UPDATE search_tool SET next_run_at = now() WHERE id = %s", [tool])
        connection.execute("UPDATE search_index_task SET status = 'ready' WHERE tool_id = %s", [tool])
    noted, go_on, note = Event(), Event(), changes.follow_from_now

    def note_and_wait(connection: Connection[Any], tool_id: UUID) -> None:
        note(connection, tool_id)
        noted.set()
        assert go_on.wait(30)

    monkeypatch.setattr(changes, "follow_from_now", note_and_wait)
    following = ToolConfig(every=3600, auto_reindex=True)
    with ThreadPoolExecutor(2) as threads:
        changing = threads.submit(tool_actions.change_config, pool, tool, following, wanted)
        assert noted.wait(30)
        scheduling = threads.submit(changes.schedule, pool)
        eventually(lambda: scheduling.done() or is_waiting(pool), 30)
        go_on.set()
        assert (changing.result(30), scheduling.result(30)) == (None, None)
    with pool.connection() as connection:
        stored = connection.execute("SELECT config FROM search_tool WHERE id = %s", [tool]).fetchone()
    assert stored == (following.model_dump(exclude_defaults=True),)
    # the schedule must not get lost in this
    with pool.connection() as connection:
        connection.execute("UPDATE search_tool SET next_run_at = now() WHERE id = %s", [tool])
    changes.schedule(pool)
    assert len(changes.due(pool)) == 1


def test_a_deleted_project_leaves_no_vectors_of_an_insert_that_runs_beside(pool: Pool) -> None:
    """The insert found a tool of the project, and is not finished when the project's rows are deleted."""
    project = f"p-{uuid4().hex}"
    tool_over_nodes(pool, project, ToolConfig())
    owner = embedding_cache.VectorOwner(project, SETTINGS.embedder)
    vectors = {f"sha256:{1:064x}": np.ones(4, dtype=np.float32)}
    same = "INSERT INTO embedding_cache VALUES (%(project_id)s, %(embedder)s, decode(lpad('1', 64, '0'), 'hex'), '')"
    with ThreadPoolExecutor(2) as threads, pool.connection() as other:
        # another insert of the same text waits for this transaction
        other.execute(same, owner.values)
        inserting = threads.submit(embedding_cache.insert, pool, owner, vectors)
        eventually(lambda: is_waiting(pool), 30)
        deleting = threads.submit(tools.delete_project, pool, project)
        eventually(lambda: deleting.done() or is_waiting(pool, 2), 30)
        other.rollback()
        assert (inserting.result(30), deleting.result(30)) == (None, [])
    with pool.connection() as connection:
        found = connection.execute("SELECT count(*) FROM embedding_cache WHERE project_id = %s", [project]).fetchone()
    assert found == (0,)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_deleted_project_leaves_no_object_of_an_upload_that_runs_beside(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    project, note, noted, go_on = f"p-{uuid4().hex}", changes.pass_on_change, Event(), Event()
    keys = [uuid4().hex, uuid4().hex]
    orphans.announce(pool, keys, timedelta(hours=1))
    names = ["a.md", "b.md" if is_new else "a.md"]
    files_ = [ReceivedFile(("folder", name), "markdown", key, 1) for name, key in zip(names, keys, strict=True)]
    uploads.save(pool, project, None, files_[:1])

    def note_and_wait(*given: Any) -> None:
        note(*given)
        noted.set()
        assert go_on.wait(30)

    monkeypatch.setattr(changes, "pass_on_change", note_and_wait)
    with ThreadPoolExecutor(2) as threads:
        uploading = threads.submit(uploads.save, pool, project, None, files_[1:])
        assert noted.wait(30)
        deleting = threads.submit(tools.delete_project, pool, project)
        eventually(lambda: deleting.done() or is_waiting(pool), 30)
        go_on.set()
        uploading.result(30)
        deleting.result(30)
    with pool.connection() as connection:
        nodes = connection.execute("SELECT id FROM content_node WHERE project_id = %s", [project]).fetchall()
        due = "SELECT key FROM content_stray WHERE key = ANY (%s) AND due_at <= now()"
        assert (nodes, {key for (key,) in connection.execute(due, [keys])}) == ([], {*keys})


def test_inserts_of_one_project_do_not_wait_for_each_other(pool: Pool) -> None:
    project = f"p-{uuid4().hex}"
    tool_over_nodes(pool, project, ToolConfig())
    owner = embedding_cache.VectorOwner(project, SETTINGS.embedder)
    with ThreadPoolExecutor(1) as thread, pool.connection() as other:
        other.execute(load("index/embedding_cache")["hold_project"], owner.values)
        inserting = thread.submit(
            embedding_cache.insert, pool, owner, {f"sha256:{2:064x}": np.ones(4, dtype=np.float32)}
        )
        assert inserting.result(10) is None


def test_a_project_is_locked_however_it_is_named(pool: Pool) -> None:
    """By its id, and by one of its indexes or tools. What is tried is another index, whose row is free."""
    project, elsewhere = f"p-{uuid4().hex}", f"p-{uuid4().hex}"
    one, other, foreign = (
        tool_over_nodes(pool, owner, ToolConfig(), node)[0]
        for owner, node in [(project, "n"), (project, "m"), (elsewhere, "n")]
    )
    one_index, other_index, foreign_index = (
        index.id for tool in (one, other, foreign) if (index := tools.index_of_tool(pool, tool))
    )
    locks: list[Callable[[Connection[Any]], object]] = [
        lambda holder: index_switch.lock_project(holder, project),
        lambda holder: index_switch.lock_index(holder, one_index),
        lambda holder: index_switch.try_lock_index(holder, one_index),
        lambda holder: index_switch.lock_tool(holder, one),
    ]
    with pool.connection() as holder, pool.connection() as trying:
        for lock in locks:
            lock(holder)
            assert not index_switch.try_lock_index(trying, other_index)
            assert index_switch.try_lock_index(trying, foreign_index)
            trying.rollback()
            holder.rollback()
            assert index_switch.try_lock_index(trying, other_index)
            trying.rollback()


def test_no_file_of_an_index_is_claimed_while_its_task_is_cancelled(pool: Pool) -> None:
    task = new_task(pool)
    index_id = index_of(pool, task)
    with ThreadPoolExecutor(1) as thread, pool.connection() as holder:
        index_switch.lock_index(holder, index_id)
        claiming = thread.submit(claimed, pool, task, uuid4())
        eventually(lambda: claiming.done() or is_waiting(pool), 30)
        assert tasks.cancel(holder, index_id)
        holder.commit()
        assert claiming.result(30) == set()


def test_a_listing_that_holds_its_task_adds_files_while_the_index_is_locked(pool: Pool) -> None:
    """Who locked the index wants the task next, so the listing must not wait for the index."""
    wanted = tools.NewIndex(
        f"p-{uuid4().hex}", NodesSource(kind="nodes", node_id="n"), "n", SETTINGS, "lancedb", "store"
    )
    _, task = tools.create(pool, wanted, name="", config=ToolConfig())
    assert task is not None
    lister = uuid4()
    plan = tasks.begin_plan(pool, task, lister)
    assert plan is not None
    page: dict[str, Any] = {"task_id": task, "index_id": plan.index_id, "owner": lister, "cursor": None}
    page |= {"listed": [_listed(1)], "unlisted": (), "ignored": {}, "matched": (), "first": True}
    with ThreadPoolExecutor(1) as thread, pool.connection() as holder:
        index_switch.lock_index(holder, plan.index_id)
        listing = thread.submit(listings.record_page, pool, **page)
        eventually(lambda: listing.done() or is_waiting(pool), 30)
        assert listing.done()
        assert tasks.cancel(holder, plan.index_id)
        holder.commit()
        assert listing.result(30) is None


def test_of_two_uploads_of_one_path_at_once_the_second_is_a_new_version(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, note, go_on = f"p-{uuid4().hex}", changes.pass_on_change, Event()
    keys, saved = [uuid4().hex, uuid4().hex], []
    orphans.announce(pool, keys, timedelta(hours=1))

    def note_and_wait(*given: Any) -> None:
        note(*given)
        saved.append(given)
        assert go_on.wait(30)

    def upload(key: str) -> list[str]:
        _, unused = uploads.save(pool, project, None, [ReceivedFile(("folder", "a.md"), "markdown", key, 1)])
        return unused

    monkeypatch.setattr(changes, "pass_on_change", note_and_wait)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(upload, keys[0])
        eventually(lambda: len(saved) == 1, 30)
        second = threads.submit(upload, keys[1])
        eventually(lambda: len(saved) == 2 or is_waiting(pool), 30)
        go_on.set()
        assert (first.result(30), second.result(30)) == ([], keys[:1])
    with pool.connection() as connection:
        stored = "SELECT name, version, object_key FROM content_node WHERE project_id = %s ORDER BY name"
        assert connection.execute(stored, [project]).fetchall() == [("a.md", 2, keys[1]), ("folder", 1, None)]


def is_waiting(pool: Pool, number: int = 1) -> bool:
    """Whether this many connections wait for locks."""
    with pool.connection() as connection:
        waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return connection.execute(waiting).rowcount >= number


def tool_over_nodes(pool: Pool, project: str, config: ToolConfig, node: str = "n") -> tuple[UUID, tools.NewIndex]:
    """A tool whose first task has ended, and what it requested."""
    wanted = tools.NewIndex(project, NodesSource(kind="nodes", node_id=node), node, SETTINGS, "lancedb", "store")
    tool, task = tools.create(pool, wanted, name="", config=config)
    with pool.connection() as connection:
        connection.execute("UPDATE search_index_task SET status = 'ready' WHERE id = %s", [task])
    return tool, wanted
