"""Namespace names are used once: late writes under a deleted index's name harm no other index, and are removed."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock
from uuid import uuid4

import psycopg
import pytest

from schemas.errors import LeaseLost, StoreUnavailable
from tests.integration.shelf import Late, Shelf, both_stores, three_files
from worker.app import app
from worker.index.commit import commit
from worker.index.pipeline import index_files
from worker.index.write import write
from worker.resources import Resources
from worker.state.index import namespaces, tasks, tools
from worker.upkeep import deletions, open_tasks
from worker.upkeep import sweep as sweeping
from worker.upkeep.sweep import sweep
from worker.vectors import VectorStore


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    with both_stores(tmp_path_factory.mktemp("namespaces"), database_url) as made:
        yield made


@pytest.fixture(params=["lancedb-store", "turbopuffer-postgres"])
def shelf(request: pytest.FixtureRequest, resources: Resources) -> Shelf:
    return three_files(resources, request.param)


def purge(shelf: Shelf) -> None:
    """Delete the tool, and let the sweep remove its index for good."""
    shelf.delete()
    deletions.purge_indexes(shelf.resources)


def exists(shelf: Shelf, namespace: str) -> bool:
    return bool(shelf.store.ids(namespace, None, 1))


def check_names(shelf: Shelf, namespace: str) -> None:
    """Make one name due, and no other."""
    shelf.do("UPDATE namespace_name SET next_check_at = now() + interval '1 day' WHERE next_check_at IS NOT NULL")
    shelf.do("UPDATE namespace_name SET next_check_at = now() WHERE name = %s", namespace)
    assert deletions.check_names(shelf.resources) == 1


def test_an_index_of_other_dimensions_never_meets_a_namespace_that_came_back(shelf: Shelf) -> None:
    late, before = Late(shelf.store), shelf.index
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    write(run, shelf.embedded(run))
    purge(shelf)
    shelf.create(dimensions=16)
    assert shelf.index.namespace == f"{before.namespace}_{shelf.index.id}"
    late.arrive()
    assert exists(shelf, before.namespace)
    shelf.index_all()
    assert len(shelf.live()) == 3
    assert shelf.vectors() == shelf.live()
    check_names(shelf, before.namespace)
    assert (exists(shelf, before.namespace), shelf.vectors()) == (False, shelf.live())


def test_a_name_that_came_back_twice_goes_twice(shelf: Shelf) -> None:
    late, namespace = Late(shelf.store), shelf.index.namespace
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    write(run, shelf.embedded(run))
    writes = list(late.waiting)
    purge(shelf)
    for _ in range(2):
        late.waiting[:] = writes
        late.arrive()
        assert exists(shelf, namespace)
        check_names(shelf, namespace)
        assert not exists(shelf, namespace)


def test_a_writer_that_slept_through_the_purge_leaves_no_namespace(shelf: Shelf) -> None:
    namespace = shelf.index.namespace
    late = Late(shelf.store, meanwhile=lambda: purge(shelf))
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    drafts = shelf.embedded(run)
    with pytest.raises(LeaseLost):
        commit(run, drafts)
    # the late writer drops what it created: the scan of names finds nothing
    assert shelf.store.drop(namespace) is False


def test_a_writer_that_slept_through_a_cancel_and_its_deletes_leaves_no_vector(shelf: Shelf) -> None:
    def cancel_and_forget() -> None:
        shelf.cancel()
        shelf.do("UPDATE chunk_tombstone SET created_at = now() - interval '1 h'")
        deletions.delete_vectors(shelf.resources)

    late = Late(shelf.store, meanwhile=cancel_and_forget)
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    drafts = shelf.embedded(run)
    with pytest.raises(LeaseLost):
        commit(run, drafts)
    assert len(shelf.vectors()) == 3
    shelf.do("UPDATE chunk_tombstone SET created_at = now() - interval '1 h'")
    deletions.delete_vectors(shelf.resources)
    assert shelf.vectors() == set()


def test_a_writer_that_lost_its_lease_takes_nothing_back_that_the_next_one_made_live(shelf: Shelf) -> None:
    late = Late(shelf.store)
    shelf.list_page(uuid4(), last=True)
    run = shelf.run(store=late)
    drafts = shelf.embedded(run)

    def another() -> None:
        shelf.expire(run)
        other = shelf.run()
        index_files(other, list(shelf.claim(other)))

    late.meanwhile = another
    with pytest.raises(LeaseLost):
        commit(run, drafts)
    assert tasks.refresh(shelf.pool, shelf.task, shelf.index.id) is not None
    shelf.do("UPDATE chunk_tombstone SET created_at = now() - interval '1 h'")
    deletions.delete_vectors(shelf.resources)
    assert len(shelf.live()) == 3
    assert shelf.vectors() == shelf.live()


def test_overlapping_sweeps_drop_no_living_namespace(shelf: Shelf, resources: Resources) -> None:
    shelf.index_all()
    shelf.delete()
    due = tools.list_buried(shelf.pool, shelf.vector_store, 1000)
    (seen,) = [index for index in due if index.namespace.startswith(f"project_{shelf.project}_")]
    # another sweep is faster, and so is the user
    deletions.purge_indexes(resources)
    shelf.create()
    shelf.index_all()
    shelf.store.drop(seen.namespace)
    tools.purge(shelf.pool, seen.id, final=True)
    assert len(shelf.live()) == 3
    assert shelf.vectors() == shelf.live()


@pytest.mark.parametrize(
    ("days", "pause"), [(0, "10 min"), (0.01, "14 min"), (3, "3 days"), (7, "7 days"), (179, "7 days"), (181, None)]
)
def test_a_name_is_looked_at_at_growing_pauses(shelf: Shelf, days: float, pause: str | None) -> None:
    namespace = shelf.index.namespace
    purge(shelf)
    shelf.do("UPDATE namespace_name SET retired_at = now() - %s * interval '1 day' WHERE name = %s", days, namespace)
    check_names(shelf, namespace)
    ((is_due,),) = shelf.do(
        "SELECT CASE WHEN %s::text IS NULL THEN next_check_at IS NULL"
        " ELSE abs(extract(epoch FROM next_check_at - now() - %s::interval)) < 60 END"
        " FROM namespace_name WHERE name = %s",
        *(pause, pause, namespace),
    )
    assert is_due


def no_store(*_: object) -> VectorStore:
    raise StoreUnavailable("It is down.")


def test_a_name_whose_store_is_down_is_looked_at_again_soon(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = shelf.index.namespace
    purge(shelf)
    shelf.do("UPDATE namespace_name SET retired_at = now() - interval '30 days' WHERE name = %s", namespace)
    with monkeypatch.context() as patched:
        patched.setattr(shelf.resources, "store", no_store)
        check_names(shelf, namespace)
    ((is_soon,),) = shelf.do(
        "SELECT next_check_at < now() + %s + interval '1 min' FROM namespace_name WHERE name = %s",
        *(namespaces.FIRST_PAUSE, namespace),
    )
    assert is_soon


def test_a_store_that_is_down_is_asked_once_in_a_round(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = shelf.index.namespace
    purge(shelf)
    shelf.do("UPDATE namespace_name SET next_check_at = now() + interval '1 day' WHERE next_check_at IS NOT NULL")
    shelf.do(
        "INSERT INTO namespace_name SELECT name || n, index_id, vector_store, keyword_index, retired_at, now()"
        " FROM namespace_name, generate_series(1, 3) n WHERE name = %s",
        namespace,
    )
    store = Mock(side_effect=StoreUnavailable("It is down."))
    monkeypatch.setattr(shelf.resources, "store", store)
    assert deletions.check_names(shelf.resources) == 3
    assert store.call_count == 1


def test_a_sweep_that_outlives_its_lock_stops(
    shelf: Shelf, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    monkeypatch.setattr(open_tasks, "count_queued", lambda _: 0)
    namespace = shelf.index.namespace
    purge(shelf)
    shelf.do("UPDATE namespace_name SET next_check_at = now() WHERE name = %s", namespace)
    due = "SELECT next_check_at <= now() FROM namespace_name WHERE name = %s"
    shelf.create()
    shelf.list_page(uuid4(), last=True)

    def lose_the_lock(*_: object) -> int:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT%%' AND pid IN"
        locks = "(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1181707364)"
        assert shelf.do(f"{query} {locks}")
        return 1

    with monkeypatch.context() as slow:
        slow.setattr(open_tasks, "wake_tasks", lose_the_lock)
        # each step took that long
        slow.setattr(sweeping, "LOOK_SECONDS", 0.0)
        with pytest.raises(psycopg.OperationalError):
            sweep(resources)
    assert shelf.do(due, namespace) == [(True,)]
    sweep(resources)
    assert shelf.do(due, namespace) == [(False,)]
