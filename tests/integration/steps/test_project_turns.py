"""Projects take turns, whichever of their tasks a message names; the workers' own steps on real rows."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.integration.database import do
from tests.integration.steps.forest import Forest
from tests.integration.steps.site import Site, listed_site, new_site
from worker.app import app
from worker.resources import Resources
from worker.state.index import messages, tasks, turns
from worker.state.tree import trees
from worker.state.tree.trees import TreeBuild
from worker.tasks import index as index_task
from worker.tasks import plan as plan_task
from worker.tasks import process
from worker.tasks import tree as tree_task

pytestmark = pytest.mark.usefixtures("nobody_else", "here")


@pytest.fixture
def here(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the bodies of tasks in this process, and send no message."""
    monkeypatch.setattr(process, "resources", lambda: resources)
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)


class Turns:
    """The model: of the projects with work, the one that was served longest ago, or never, is next."""

    def __init__(self, sites: list[Site]) -> None:
        self.waiting = {site.task: site.project for site in sites}
        self.served: list[str] = []

    def next(self, hinted: UUID) -> set[UUID]:
        """The tasks that may be served now."""
        projects = {*self.waiting.values()}
        first = min(projects, key=self._last)
        due = [task for task, project in self.waiting.items() if self._last(project) == self._last(first)]
        if hinted in due:
            return {hinted}
        oldest: dict[str, UUID] = {}
        for task in due:
            oldest.setdefault(self.waiting[task], task)
        return {*oldest.values()}

    def _last(self, project: str) -> int:
        return len(self.served) - self.served[::-1].index(project) if project in self.served else 0

    def take(self, task: UUID) -> None:
        self.served.append(self.waiting.pop(task))


def sites_of(resources: Resources, random: Random, number: int, *, listed: bool = False) -> list[Site]:
    """Tools of one file each, of some projects of which one has most."""
    names = [f"{name}-{uuid4().hex}" for name in ("many", "some", "few")]
    make = listed_site if listed else new_site
    return [make(resources, 1, project=name) for name in random.choices(names, [8, 2, 1], k=number)]


@pytest.mark.parametrize("seed", range(6))
def test_a_listing_goes_to_the_project_that_waits_longest_whatever_the_messages_say(
    resources: Resources, seed: int
) -> None:
    random = Random(seed)
    sites = sites_of(resources, random, 12)
    model = Turns(sites)
    # some messages are lost, some come twice, and some name tasks that ended
    hints = [random.choice([site.task for site in sites] + [uuid4()]) for _ in range(40)]
    for hint in hints:
        if not model.waiting:
            assert plan_task._plan(hint) == {"nothing": "to list"}
            break
        allowed = model.next(hint)
        before = listing(resources, sites)
        assert plan_task._plan(hint)["listed"]
        (task,) = before - listing(resources, sites)
        assert task in allowed
        model.take(task)
    assert not model.waiting


def listing(resources: Resources, sites: list[Site]) -> set[UUID]:
    """The tasks whose folders are not listed yet."""
    query = "SELECT id FROM search_index_task WHERE id = ANY (%s) AND listing"
    return {id_ for (id_,) in do(resources.pool, query, [site.task for site in sites])}


@pytest.mark.parametrize("seed", range(2))
def test_a_slice_goes_to_the_project_that_waits_longest_whatever_the_messages_say(
    resources: Resources, seed: int
) -> None:
    random = Random(seed)
    sites = sites_of(resources, random, 8, listed=True)
    model = Turns(sites)
    for number in range(len(sites)):
        hint = random.choice([site.task for site in sites])
        allowed = model.next(hint)
        run = index_task._index_fairly if number % 2 else _small
        # once for its words, and once for its vectors
        assert run(hint)["claimed"] in {1, 2}
        (task,) = {*model.waiting} - open_tasks(sites)
        assert task in allowed
        model.take(task)


def _small(hint: UUID) -> dict[str, Any]:
    return index_task._index_small(hint, f"node-{uuid4()}")


def open_tasks(sites: list[Site]) -> set[UUID]:
    query = "SELECT id FROM search_index_task WHERE id = ANY (%s) AND status = 'indexing'"
    return {id_ for (id_,) in sites[0].do(query, [site.task for site in sites])}


def test_the_only_tool_of_a_project_is_listed_next_after_two_hundred_of_another(resources: Resources) -> None:
    many = [new_site(resources, 1, project="many-" + resources.home.name) for _ in range(20)]
    assert plan_task._plan(many[0].task)["listed"]
    one = new_site(resources, 1, project=f"one-{uuid4()}")
    # the message of the one would come last
    assert plan_task._plan(many[1].task)["listed"]
    assert listing(resources, [one]) == set()


def test_a_listing_at_work_counts_as_a_turn(resources: Resources) -> None:
    busy, other, idle = (new_site(resources, project=name + uuid4().hex[:4]) for name in ("busy", "busy", "idle"))
    other.do("UPDATE search_index SET project_id = %s WHERE id = %s", busy.project, other.index.id)
    turns.take(resources.pool, idle.project, "listing")
    assert turns.listings(resources.pool, idle.task)[0] in {busy.task, other.task}
    assert tasks.begin_plan(resources.pool, busy.task, uuid4()) is not None
    assert turns.listings(resources.pool, other.task) == [idle.task, other.task]


@pytest.mark.parametrize("kind", ["search_index_task", "search_index"])
def test_a_listing_whose_rows_are_locked_delays_no_other(resources: Resources, database_url: str, kind: str) -> None:
    held, other = new_site(resources), new_site(resources)
    id_ = held.task if kind == "search_index_task" else held.index.id
    with psycopg.connect(database_url) as holder:
        holder.execute(f"SELECT FROM {kind} WHERE id = %s FOR UPDATE".encode(), (id_,))
        assert plan_task._plan(held.task)["listed"]
        assert listing(resources, [held, other]) == {held.task}
    assert plan_task._plan(held.task)["listed"]
    assert listing(resources, [held]) == set()


@pytest.mark.parametrize(("seconds", "is_due"), [(-1.0, True), (60.0, False)])
def test_a_listing_that_waits_for_its_source_is_passed_over(resources: Resources, seconds: float, is_due: bool) -> None:
    waiting, hint = new_site(resources), uuid4()
    messages.note_sent(resources.pool, waiting.task, seconds)
    assert (turns.listings(resources.pool, hint) == [waiting.task]) is is_due
    # its own message comes as late as it should, whatever the clocks of the broker and of Postgres say
    assert turns.listings(resources.pool, waiting.task) == [waiting.task]


def test_turns_do_not_wait_for_a_turn_that_another_transaction_holds(resources: Resources, database_url: str) -> None:
    project = f"p-{uuid4()}"
    turns.take(resources.pool, project, "index")
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT FROM project_turn WHERE project_id = %s FOR UPDATE", (project,))
        turns.take(resources.pool, project, "index")


def test_a_fault_is_told_to_the_task_it_happened_to(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    due, hinted = new_site(resources), new_site(resources)
    turns.take(resources.pool, hinted.project, "listing")

    def fail(*_: object) -> bool:
        raise KeyError("a bug")

    monkeypatch.setattr(plan_task, "_list", fail)
    with capture_logs(), pytest.raises(Exception, match="a bug"):
        plan_task.plan(str(hinted.task))
    query = "SELECT warning IS NOT NULL FROM search_index_task WHERE id = %s"
    assert [due.do(query, site.task)[0][0] for site in (due, hinted)] == [True, False]


def test_a_tree_goes_to_the_project_that_waits_longest(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    many = f"many-{uuid4()}"
    forests = [Forest(new_site(resources, 1, project=project)) for project in (many, many, many, f"one-{uuid4()}")]
    for forest in forests:
        forest.site.do("UPDATE search_index_task SET status = 'ready' WHERE id = %s", forest.site.task)
        forest.configure()
    first, *others, one = [forest.tree.id for forest in forests]
    built: list[UUID] = []

    def build(run: TreeBuild, _seconds: float) -> bool:
        built.append(run.id)
        return trees.cancel(resources.pool, run.id)

    monkeypatch.setattr(tree_task, "_open_run", lambda _, build, *__: build)
    monkeypatch.setattr(tree_task, "build_slice", build)
    for hint in (first, *others, first):
        tree_task._build_alone(hint, f"node-{uuid4()}")
    assert built[:2] == [first, one]
    assert {*built[2:]} == {*others}
