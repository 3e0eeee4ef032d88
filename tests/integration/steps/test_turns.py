"""The order of work between projects, tasks and changing folders; directly on the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from schemas.source import NodesSource
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site
from worker import dispatch
from worker.app import BULK, FAST, MAX_SLICES, SMALL_TASK, app
from worker.index.pipeline import claim_files
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.index import changes, drift, embedding_cache, files, tasks, tools
from worker.state.index.embedding_cache import Owner
from worker.tasks import index as index_task
from worker.tasks import process
from worker.upkeep import open_tasks
from worker.upkeep.sweep import sweep


@pytest.fixture(autouse=True)
def nobody_else(resources: Resources) -> Iterator[None]:
    """Close the open tasks of other tests."""
    yield
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")
        connection.execute("DELETE FROM search_index_change")
        connection.execute("UPDATE search_index SET checked_at = now()")


def new_site(resources: Resources, number: int = 2, **given: Any) -> Site:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    for name in range(number):
        (folder / f"{name}.md").write_text(f"# File {name}\n\nSome text.\n")
    return Site(resources, folder, **given)


def listed_site(resources: Resources, number: int = 2, **given: Any) -> Site:
    made = new_site(resources, number, **given)
    made.list_folder()
    return made


# --- between projects and tasks


def served(resources: Resources, sites: dict[UUID, Site], workers: int, **given: Any) -> Counter[str]:
    """The projects that this many workers serve, if each worker takes a file and keeps it."""
    projects: Counter[str] = Counter()
    for _ in range(workers):
        task = files.fairest(resources.pool, **given)
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


def test_the_preferred_task_is_served_unless_another_waits_more(resources: Resources) -> None:
    one, other = listed_site(resources, project="a"), listed_site(resources, project="b")
    assert files.fairest(resources.pool, preferred=other.task) == other.task
    assert files.fairest(resources.pool, preferred=one.task) == one.task
    other.claim(other.worker(), 1)
    assert files.fairest(resources.pool, preferred=other.task) == one.task
    # a task that waits for its provider gets no turn
    tasks.sent(resources.pool, one.task, 60)
    assert files.fairest(resources.pool, preferred=one.task) == other.task


def test_a_task_without_waiting_files_has_no_turn(resources: Resources) -> None:
    site = listed_site(resources)
    site.claim(site.worker())
    assert files.fairest(resources.pool, preferred=site.task) is None


@pytest.mark.parametrize(("number", "small"), [(SMALL_TASK, True), (SMALL_TASK + 1, False)])
def test_the_fast_queue_serves_small_tasks_only(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, number: int, small: bool
) -> None:
    site = listed_site(resources, number)
    tasks.refresh(resources.pool, site.task, site.index.id)
    assert files.fairest(resources.pool, most_files=SMALL_TASK) == (site.task if small else None)
    assert (FAST in messages(resources, monkeypatch, site.task)) is small


def messages(resources: Resources, monkeypatch: pytest.MonkeyPatch, task: UUID, **given: Any) -> list[str]:
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
    assert messages(resources, monkeypatch, site.task).count(BULK) == workers
    assert messages(resources, monkeypatch, site.task, max_messages=1).count(BULK) == 1


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
    values = {"task_id": site.task, "index_id": run.index.id, "owner": run.lease.owner}
    assert len(files.claim(site.pool, **values, max_files=9, max_bytes=sizes[0] + 1 + spare)) == taken


# --- the sweep


class Sweeps:
    """Sweep without a broker, and record the messages."""

    def __init__(self, resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resources = resources
        self.sent: list[tuple[str, list[str]]] = []
        self.waiting = 0
        monkeypatch.setattr(app, "send_task", lambda name, args, **_: self.sent.append((name, args)))
        monkeypatch.setattr(open_tasks, "queued", lambda _: self.waiting)
        monkeypatch.setattr(open_tasks, "crowded", lambda _: False)

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


def passes(resources: Resources, seconds: float) -> None:
    """Let time pass for sent messages and recorded changes."""
    with resources.pool.connection() as connection:
        for table, columns in (
            ("search_index_task", ("sent_at", "created_at", "refreshed_at")),
            ("search_index_change", ("since", "due_at", "ran_at", "rest_until")),
        ):
            moved = ", ".join(f"{column} = {column} - make_interval(secs => {seconds})" for column in columns)
            connection.execute(f"UPDATE {table} SET {moved}".encode())


def test_a_sweep_gives_a_message_time_before_it_sends_another(resources: Resources, sweeps: Sweeps) -> None:
    site = listed_site(resources)
    tasks.sent(resources.pool, site.task)
    assert sweeps.round() == []
    # the rest leaves a busy machine time
    passes(resources, tasks.RESEND_AFTER.total_seconds() / 2)
    assert sweeps.round() == []
    passes(resources, tasks.RESEND_AFTER.total_seconds() / 2)
    assert sweeps.round() == [site.task]


def test_a_sweep_leaves_a_task_alone_until_its_provider_may_be_asked_again(
    resources: Resources, sweeps: Sweeps
) -> None:
    site = listed_site(resources)
    tasks.sent(resources.pool, site.task, 60)
    passes(resources, 60)
    assert sweeps.round() == []
    passes(resources, tasks.RESEND_AFTER.total_seconds() + 0.1)
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


def test_a_sweep_ends_a_task_of_which_nothing_is_left(resources: Resources, sweeps: Sweeps) -> None:
    site = listed_site(resources)
    site.do("UPDATE search_index_file SET status = 'skipped' WHERE index_id = %s", site.index.id)
    assert sweeps.round() == []
    assert site.do("SELECT status FROM search_index_task WHERE id = %s", site.task) == [("ready",)]


def test_a_listing_that_nobody_works_on_is_asked_for_again(resources: Resources, sweeps: Sweeps) -> None:
    site = new_site(resources)
    sweeps.round()
    assert sweeps.planned == []
    passes(resources, tasks.RESEND_AFTER.total_seconds() + 0.1)
    sweeps.round()
    assert sweeps.planned == [site.task]
    # it counts as sent
    sweeps.round()
    assert sweeps.planned == [site.task]
    passes(resources, tasks.RESEND_AFTER.total_seconds() + 0.1)
    assert tasks.begin_plan(resources.pool, site.task, uuid4()) is not None
    sweeps.round()
    assert sweeps.planned == [site.task]


# --- changing folders

Changes = Callable[[Resources, Site], None]


def local_site(resources: Resources) -> Site:
    site = new_site(resources)
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    return site


def nodes_site(resources: Resources) -> Site:
    project, root = f"p-{uuid4().hex}", f"n-{uuid4().hex}"
    node = {
        "id": root,
        "parent_id": None,
        "name": "root",
        "type": "folder",
        "json": None,
        "object_key": None,
        "size": 0,
        "url": None,
    }
    nodes.insert(resources.pool, project, node)
    site = Site(resources, resources.home, project=project, source=NodesSource(node_id=root))
    site.do("""UPDATE search_tool SET config = '{"auto_reindex": true}' WHERE id = %s""", site.tool)
    return site


def change_files(resources: Resources, site: Site) -> None:
    changes.changed(resources.pool, [site.index.id], quiet=changes.QUIET)


def change_nodes(resources: Resources, site: Site) -> None:
    with resources.pool.connection() as connection:
        changes.nodes_changed(connection, site.project, [f"/{site.index.source.content_node}"])


KINDS = [(local_site, change_files), (nodes_site, change_nodes)]


@pytest.mark.parametrize(("new", "change"), KINDS)
def test_a_run_waits_for_quiet(resources: Resources, new: Callable[[Resources], Site], change: Changes) -> None:
    site = new(resources)
    change(resources, site)
    passes(resources, changes.QUIET.total_seconds() - 1)
    change(resources, site)
    passes(resources, changes.QUIET.total_seconds() - 0.5)
    assert changes.due(resources.pool) == []
    passes(resources, 0.6)
    assert changes.due(resources.pool) == [site.index.id]


@pytest.mark.parametrize(("new", "change"), KINDS)
def test_an_edit_each_second_puts_a_run_off_for_no_longer_than_the_patience(
    resources: Resources, new: Callable[[Resources], Site], change: Changes
) -> None:
    site = new(resources)
    seconds = 0
    while not changes.due(resources.pool):
        assert seconds < 20
        change(resources, site)
        passes(resources, 1)
        seconds += 1
    assert seconds == changes.LONGEST_DELAY.total_seconds() == 15
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    started = changes.start(resources.pool, site.index.id, timedelta(0))
    assert started is not None
    assert changes.due(resources.pool) == []
    # the next edit has its own quiet period and its own longest wait
    change(resources, site)
    passes(resources, 1)
    assert changes.due(resources.pool) == []
    passes(resources, 1.1)
    assert changes.due(resources.pool) == [site.index.id]


def test_an_open_task_is_followed_by_one_further(resources: Resources) -> None:
    site = local_site(resources)
    rerun = "SELECT rerun FROM search_index_task WHERE id = %s"
    for begun in (False, True):
        if begun:
            site.list_folder()
        change_files(resources, site)
        passes(resources, 10)
        assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
        # a task that has not begun sees the change anyway
        assert site.do(rerun, site.task) == [(begun,)]
    assert changes.due(resources.pool) == []


def test_a_watch_rests_after_a_run_but_not_after_the_first(resources: Resources) -> None:
    site = local_site(resources)
    rest = timedelta(seconds=60)
    for rests in (False, True):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change_files(resources, site)
        passes(resources, 10)
        assert changes.start(resources.pool, site.index.id, rest) is not None
        change_files(resources, site)
        passes(resources, 10)
        assert changes.due(resources.pool) == ([] if rests else [site.index.id])
    passes(resources, 60)
    assert changes.due(resources.pool) == [site.index.id]


def test_what_is_taken_up_twice_starts_one_run(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    change_files(resources, site)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is not None
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None
    assert len(site.do("SELECT id FROM search_index_task WHERE index_id = %s", site.index.id)) == 2


def test_nobody_runs_for_a_tool_that_follows_no_more(resources: Resources) -> None:
    site = local_site(resources)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", site.task)
    site.do("UPDATE search_tool SET config = '{}' WHERE id = %s", site.tool)
    change_files(resources, site)
    passes(resources, 10)
    assert changes.start(resources.pool, site.index.id, timedelta(0)) is None


def test_the_rows_of_old_runs_go(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEPT_RUNS", 3)
    site = local_site(resources)
    started = None
    for _ in range(4):
        site.do("UPDATE search_index_task SET status = 'ready' WHERE index_id = %s", site.index.id)
        change_files(resources, site)
        passes(resources, 10)
        started = changes.start(resources.pool, site.index.id, timedelta(0))
        assert started is not None
    kept = site.do("SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC", site.index.id)
    assert len(kept) == 3
    assert started
    assert kept[0] == (started.task_id,)


# --- more than one round takes


def many_tools(resources: Resources, number: int, config: ToolConfig) -> list[UUID]:
    """Tools over separate folders. Returns their indexes, in order."""
    site = new_site(resources, 0)
    made = []
    for place in range(number):
        source = site.wanted().source.model_copy(update={"path": f"/many/{place}"})
        wanted = site.wanted()
        tool, _ = tools.create(
            resources.pool,
            type(wanted)(site.project, source, f"h.{place}", wanted.settings, "lancedb", "store"),
            name="",
            config=config,
        )
        found = tools.index_of_tool(resources.pool, tool)
        assert found is not None
        made.append(found.id)
    site.do("UPDATE search_index_task SET status = 'ready' WHERE status = 'pending'")
    return made


def test_folders_beyond_one_round_are_taken_up_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, 51, ToolConfig(watch=True))
    changes.changed(resources.pool, indexes, quiet=timedelta(0))
    with resources.pool.connection() as connection:
        for place, index_id in enumerate(indexes):
            late = timedelta(minutes=len(indexes) - place)
            connection.execute(
                "UPDATE search_index_change SET due_at = now() - %s WHERE index_id = %s", (late, index_id)
            )
    taken: list[UUID] = []
    rounds = 0
    while due := changes.due(resources.pool):
        rounds += 1
        taken += due
        for index_id in due:
            assert changes.start(resources.pool, index_id, timedelta(0)) is not None
    # those that have waited longest come first, and none is requested twice
    assert taken == indexes
    assert rounds == 2


def test_schedules_beyond_one_round_are_met_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, 101, ToolConfig(every=3600))
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_tool SET next_run_at = now() - interval '1 s' WHERE next_run_at IS NOT NULL")
    noted = []
    for _ in range(3):
        changes.schedule(resources.pool)
        with resources.pool.connection() as connection:
            noted.append(connection.execute("SELECT count(*) FROM search_index_change").fetchone())
    assert noted == [(100,), (101,), (101,)]
    with resources.pool.connection() as connection:
        (next_,) = connection.execute(
            "SELECT min(next_run_at) > now() + interval '59 min' FROM search_tool"
        ).fetchone() or (None,)
    assert next_
    assert len(indexes) == 101


def test_checks_beyond_one_round_are_made_by_the_next(resources: Resources) -> None:
    indexes = many_tools(resources, drift.MAX_CHECKS + 1, ToolConfig())
    with resources.pool.connection() as connection:
        connection.execute("UPDATE search_index SET checked_at = now() - interval '2 h' WHERE id = ANY (%s)", [indexes])
    rounds = [drift.due(resources.pool) for _ in range(3)]
    assert [len(found) for found in rounds] == [drift.MAX_CHECKS, 1, 0]
    assert {*rounds[0], *rounds[1]} == {*indexes}


def test_a_text_is_found_in_the_newest_indexes_only(resources: Resources) -> None:
    """If there are more than can be checked in a moment, the newest fifty."""
    site = listed_site(resources, 1)
    site.finish_all()
    ((text_hash,),) = site.do("SELECT content_hash FROM chunk WHERE index_id = %s", site.index.id)
    owner = Owner(site.project, site.index.settings.embedder)

    def found() -> list[tuple[str, str, UUID]]:
        return embedding_cache.live_elsewhere(resources.pool, owner, "lancedb", [text_hash])

    assert [namespace for _, namespace, _ in found()] == [site.index.namespace]
    copied = (
        "INSERT INTO search_index (id, project_id, identity, source, folder_node_id, settings, vector_store,"
        " keyword_index, namespace) SELECT gen_random_uuid(), project_id, n::text, source, folder_node_id, settings,"
        " vector_store, keyword_index, namespace || n FROM search_index, generate_series(%s::int, %s::int) n"
        " WHERE id = %s"
    )
    site.do(copied, 1, 49, site.index.id)
    assert len(found()) == 1
    site.do(copied, 50, 50, site.index.id)
    assert found() == []
