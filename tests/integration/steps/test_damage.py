"""A damaged table is written again from the rows and the embedding cache, within the limit of cost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import lancedb
import pytest

from schemas.errors import StoreUnavailable
from tests.contract.damage import DAMAGE
from tests.integration.steps.site import Site, new_site, write
from worker.app import app
from worker.resources import Resources
from worker.state.index import counting, tool_actions
from worker.tasks import index as index_task
from worker.tasks import plan as plan_task
from worker.tasks import process, upkeep
from worker.upkeep import fsck
from worker.vectors import Leg, VectorStore

pytestmark = pytest.mark.usefixtures("nobody_else", "here")


@pytest.fixture
def here(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the bodies of tasks in this process, and send no message."""
    monkeypatch.setattr(process, "resources", lambda: resources)
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)


@pytest.fixture
def ready(resources: Resources) -> Site:
    """A folder that is indexed."""
    made = new_site(resources, 6)
    for number in range(6):
        write(made.folder, number, f"Text {number} tells of apples and of {number * 'pears '}.")
    made.list_folder()
    made.finish_all()
    store_of(made).optimize(made.index.namespace)
    return made


def store_of(site: Site) -> VectorStore:
    return site.resources.store_of(site.index)


def vectors_of(site: Site) -> dict[UUID, bytes]:
    found = store_of(site).vectors(site.index.namespace, sorted(site.chunks(live=True)))
    return {id_: vector.tobytes() for id_, vector in found.items()}


def table_of(site: Site) -> Path:
    return site.resources.home / "lancedb" / f"{site.index.namespace}.lance"


def damage(site: Site, random: Random) -> None:
    file = random.choice(sorted(path for path in table_of(site).rglob("*") if path.is_file()))
    random.choice([*DAMAGE.values()])(file, random)


def query(site: Site) -> None:
    vector = site.resources.embedder(site.index.settings.embedder, explicit_dimensions=False).embed(["apples"])[0]
    store_of(site).search(site.index.namespace, [Leg(5, vector=vector), Leg(5, keywords="apples")])


def run(site: Site) -> None:
    """A run as workers do it, with the check that follows it."""
    site.task = tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False) or site.task
    finish(site)


def edit(site: Site) -> None:
    write(site.folder, 1, "Text 1 now tells of plums.")
    run(site)


def finish(site: Site) -> None:
    while site.do("SELECT 1 FROM search_index_task WHERE id = %s AND status IN ('pending', 'indexing')", site.task):
        # a store that fails lets a task wait; its message would come back a little later
        site.do("UPDATE search_index_task SET sent_at = NULL WHERE id = %s", site.task)
        plan_task._plan(site.task)
        index_task._index_fairly(site.task)
    upkeep._optimize(site.index.id)
    (site.task,) = site.do(
        "SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC", site.index.id
    )[0]


def check(site: Site) -> None:
    """What the sweep does from time to time, and after a search that finds nothing."""
    upkeep._check(site.index.id)
    (site.task,) = site.do(
        "SELECT id FROM search_index_task WHERE index_id = %s ORDER BY created_at DESC", site.index.id
    )[0]
    finish(site)


CALLS: dict[str, Callable[[Site], object]] = {
    "query": query,
    "edit": edit,
    "fsck": lambda site: fsck.repair(site.pool, store_of(site), site.index),
    "run": run,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("seed", range(2))
def test_after_any_call_a_damaged_table_has_the_vectors_of_a_calm_run(ready: Site, call: str, seed: int) -> None:
    random = Random(f"{call} {seed}")
    damage(ready, random)
    with suppress(StoreUnavailable):
        CALLS[call](ready)
    check(ready)
    calm = Site(ready.resources, ready.folder)
    calm.list_folder()
    calm.finish_all()
    assert sorted(vectors_of(ready).values()) == sorted(vectors_of(calm).values())
    query(ready)
    assert not fsck.inspect(ready.pool, store_of(ready), ready.index).drift


def lose(site: Site) -> None:
    """Cut all data of the table short."""
    for file in (table_of(site) / "data").iterdir():
        file.write_bytes(file.read_bytes()[:-9])


def test_the_cache_pays_for_what_was_damaged(ready: Site) -> None:
    before = vectors_of(ready)
    lose(ready)
    with pytest.raises(StoreUnavailable, match="damaged"):
        query(ready)
    check(ready)
    assert vectors_of(ready) == before
    assert ready.do("SELECT tokens FROM search_index_task WHERE id = %s", ready.task) == [(0,)]


def test_the_cache_pays_for_a_table_of_before_the_first_release(ready: Site) -> None:
    before = vectors_of(ready)
    lancedb.connect(table_of(ready).parent).open_table(ready.index.namespace).drop_columns(["generation"])
    check(ready)
    assert vectors_of(ready) == before
    query(ready)
    assert ready.do("SELECT tokens FROM search_index_task WHERE id = %s", ready.task) == [(0,)]


@pytest.mark.parametrize(("limit", "is_over"), [(1, True), (1_000_000, False)])
def test_what_the_cache_lacks_is_embedded_within_the_limit_and_the_status_says_so(
    ready: Site, limit: int, is_over: bool
) -> None:
    before = vectors_of(ready)
    ready.do(
        "UPDATE search_tool SET config = jsonb_build_object('max_cost_tokens', %s::int) WHERE id = %s",
        limit,
        ready.tool,
    )
    ready.do("DELETE FROM embedding_cache WHERE project_id = %s", ready.project)
    lose(ready)
    with pytest.raises(StoreUnavailable, match="damaged"):
        query(ready)
    check(ready)
    ((over, spent),) = ready.do("SELECT over_cost, spent_tokens FROM search_index_task WHERE id = %s", ready.task)
    assert over is is_over
    assert spent <= limit
    assert (vectors_of(ready) == before) is not is_over
    counted = counting.counts(ready.pool, ready.index.id)
    # words are found without the vectors
    assert counted[:2] == (6, 6)
    assert (counted.vector_chunks == counted.total_chunks) is not is_over


def test_a_deleted_tool_leaves_nothing_that_was_set_aside(ready: Site) -> None:
    lose(ready)
    with pytest.raises(StoreUnavailable, match="damaged"):
        query(ready)
    aside = [path for path in table_of(ready).parent.iterdir() if path.name.endswith(f"-{table_of(ready).name}")]
    assert len(aside) == 1
    store_of(ready).drop(ready.index.namespace)
    assert not aside[0].exists()
