"""What the sweep deletes in vector stores: each index separately, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from structlog.testing import capture_logs

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.errors import StoreUnavailable
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.database import do
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import changes, chunks, delete_queue, drift, namespaces, tools
from worker.state.pool import Pool
from worker.state.queries import load
from worker.tokens.keywords import Keywords
from worker.upkeep import deletions, open_tasks
from worker.vectors import VectorRow, VectorStore

SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000)


@pytest.fixture
def resources(database_url: str, tmp_path: Path) -> Iterator[Resources]:
    """A worker without a key for Turbopuffer."""
    made = Resources(Settings(database_url=database_url, foldex_home=tmp_path))
    # rendering tracebacks takes longer than these tests
    with made.pool, capture_logs():
        yield made
        do(made.pool, "DELETE FROM search_tool")
        do(made.pool, "DELETE FROM search_index")
        do(made.pool, "DELETE FROM namespace_name")
        do(made.pool, "DELETE FROM store_directory")


def index(resources: Resources, store: str = "lancedb") -> tools.Index:
    """An index of a separate project, with a namespace of three vectors if the store can be reached."""
    source = LocalSource(kind="local", path="/nowhere")
    wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", SETTINGS, store, "store")
    tool, _ = tools.create(resources.pool, wanted, name="", config=ToolConfig())
    made = tools.index_of_tool(resources.pool, tool)
    assert made is not None
    if store == "lancedb":
        rows = [VectorRow(uuid4(), np.ones(4, dtype=np.float32), {}, Keywords("word", "word")) for _ in range(3)]
        lance(resources).write(made.namespace, 4, upserts=rows)
    return made


def lance(resources: Resources) -> VectorStore:
    """The real store, even if some namespaces fail for the sweep."""
    store = resources.store("lancedb", "store")
    return getattr(store, "real", store)


def stored(resources: Resources, made: tools.Index) -> list[UUID]:
    return lance(resources).ids(made.namespace, None, 10)


def bury_vectors(resources: Resources, made: tools.Index, age: str = "1 min") -> None:
    """Write tombstones for the vectors of the namespace, or for three ids if it cannot be reached."""
    ids = stored(resources, made) if made.vector_store == "lancedb" else [uuid4() for _ in range(3)]
    insert = (
        "INSERT INTO chunk_tombstone (id, index_id, created_at) SELECT unnest(%s::uuid[]), %s, now() - %s::interval"
    )
    do(resources.pool, insert, ids, made.id, age)


#: A file of the index.
ADD_FILE = (
    "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version)"
    " SELECT gen_random_uuid(), index_id, 'a', 'a', '/a', 1, id, 's', '1' FROM search_index_task WHERE index_id = %s"
)
#: A chunk of each file of the index.
ADD_CHUNK = (
    "INSERT INTO chunk (id, index_id, file_id, chunk_index, chunk_text, context, lead, trail, content_hash,"
    " tokens_estimate, start_line, end_line, start_char, end_char)"
    " SELECT gen_random_uuid(), index_id, id, 0, '', '', '', '', '', 1, 1, 1, 0, 0 FROM search_index_file"
    " WHERE index_id = %s RETURNING id"
)
#: A vector to delete, the age of that, and whether its first delete is confirmed.
ADD_TOMBSTONE = (
    "INSERT INTO chunk_tombstone (id, index_id, created_at, deleted_at)"
    " VALUES (%s, %s, now() - %s::interval, CASE WHEN %s THEN now() END)"
)


def add_file(resources: Resources, made: tools.Index) -> None:
    do(resources.pool, ADD_FILE, made.id)


def bury(resources: Resources, made: tools.Index, age: str = "1 h") -> None:
    """Pretend that the tool was deleted this long ago."""
    do(resources.pool, "DELETE FROM search_tool WHERE index_id = %s", made.id)
    do(resources.pool, "UPDATE search_index SET deleted_at = now() - %s::interval WHERE id = %s", age, made.id)


def left(resources: Resources) -> set[UUID]:
    """Indexes with unconfirmed deletes."""
    found = do(resources.pool, "SELECT index_id FROM chunk_tombstone WHERE deleted_at IS NULL")
    return {index_id for (index_id,) in found}


def let_pauses_pass(resources: Resources) -> None:
    do(resources.pool, "UPDATE search_index_upkeep SET after = now() - interval '1 ms' WHERE failures > 0")


def test_a_store_without_a_key_keeps_no_other_from_its_deletes(resources: Resources) -> None:
    broken, healthy = index(resources, "turbopuffer"), index(resources)
    bury_vectors(resources, broken, "1 h")
    bury_vectors(resources, healthy)
    assert deletions.delete_vectors(resources) == 1
    assert (left(resources), stored(resources, healthy)) == ({broken.id}, [])


def test_a_store_without_a_key_keeps_no_other_from_its_purge(resources: Resources) -> None:
    broken, healthy = index(resources, "turbopuffer"), index(resources)
    bury(resources, broken, "2 h")
    bury(resources, healthy)
    assert deletions.purge_indexes(resources) == 1
    assert do(resources.pool, "SELECT id FROM search_index") == [(broken.id,)]
    assert stored(resources, healthy) == []


class Unwell:
    """A LanceDB in which some namespaces fail."""

    def __init__(self, resources: Resources, error: Exception) -> None:
        self.real, self.error = lance(resources), error
        self.namespaces: set[str] = set()
        self.asked: list[str] = []

    def write(self, namespace: str, *values: Any, **more: Any) -> None:
        self._ask(namespace)
        self.real.write(namespace, *values, **more)

    def drop(self, namespace: str) -> None:
        self._ask(namespace)
        self.real.drop(namespace)

    def _ask(self, namespace: str) -> None:
        self.asked.append(namespace)
        if namespace in self.namespaces:
            raise self.error


@pytest.fixture(params=[StoreUnavailable("down"), KeyError("a mistake")], ids=["down", "mistake"])
def unwell(request: pytest.FixtureRequest, resources: Resources) -> Unwell:
    made = Unwell(resources, request.param)
    resources._stores["lancedb", True, None] = made  # type: ignore[assignment] # all that the sweep asks of it
    return made


@pytest.mark.parametrize("failing", [2, 3])
def test_deletes_that_fail_starve_no_others(resources: Resources, unwell: Unwell, failing: int) -> None:
    """Just below and above the number of indexes that one sweep handles."""
    broken = [index(resources) for _ in range(failing)]
    healthy = index(resources)
    unwell.namespaces = {made.namespace for made in broken}
    for made in broken:
        bury_vectors(resources, made, "10 min")
    bury_vectors(resources, healthy)
    for _ in range(2):
        deletions.delete_vectors(resources, indexes=3)
    assert left(resources) == {made.id for made in broken}
    # they are postponed, and tried again
    assert sorted(unwell.asked) == sorted(made.namespace for made in [*broken, healthy])
    unwell.namespaces = set()
    let_pauses_pass(resources)
    deletions.delete_vectors(resources, indexes=3)
    assert left(resources) == set()
    assert do(resources.pool, "SELECT index_id FROM search_index_upkeep") == []


@pytest.mark.parametrize("failing", [2, 3])
def test_purges_that_fail_starve_no_others(resources: Resources, unwell: Unwell, failing: int) -> None:
    broken = [index(resources) for _ in range(failing)]
    healthy = index(resources)
    unwell.namespaces = {made.namespace for made in broken}
    for made in broken:
        bury(resources, made, "2 h")
    bury(resources, healthy)
    for _ in range(2):
        deletions.purge_indexes(resources, limit=3)
    assert {id_ for (id_,) in do(resources.pool, "SELECT id FROM search_index")} == {made.id for made in broken}
    unwell.namespaces = set()
    let_pauses_pass(resources)
    deletions.purge_indexes(resources, limit=3)
    assert do(resources.pool, "SELECT id FROM search_index") == []


def test_pauses_grow_and_end_with_a_success(resources: Resources, unwell: Unwell) -> None:
    broken = index(resources)
    unwell.namespaces = {broken.namespace}
    bury_vectors(resources, broken)
    pauses = []
    for _ in range(10):
        assert deletions.delete_vectors(resources) == 0
        ((pause,),) = do(resources.pool, "SELECT after - now() FROM search_index_upkeep")
        pauses.append(pause.total_seconds())
        assert deletions.delete_vectors(resources) == 0
        let_pauses_pass(resources)
    # each check makes a due time pass
    lasts = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [pause for pause, last in zip(pauses, lasts, strict=True) if not last - 2 < pause <= last] == []
    assert len(unwell.asked) == 10
    # a store that is down for weeks
    do(resources.pool, "UPDATE search_index_upkeep SET failures = 100000")
    assert deletions.delete_vectors(resources) == 0
    assert do(resources.pool, "SELECT after - now() > interval '290 s' FROM search_index_upkeep") == [(True,)]
    # a clock that is set back makes no pause longer
    do(resources.pool, "UPDATE search_index_upkeep SET after = now() + interval '1 day'")
    unwell.namespaces = set()
    assert deletions.delete_vectors(resources) == 1
    assert do(resources.pool, "SELECT index_id FROM search_index_upkeep") == []


def test_a_success_with_more_to_do_ends_a_long_pause(resources: Resources) -> None:
    made = index(resources)
    for _ in range(5):
        delete_queue.postpone(resources.pool, made.id)
    delete_queue.requeue(resources.pool, made.id)
    assert do(resources.pool, "SELECT after <= now() FROM search_index_upkeep WHERE index_id = %s", made.id) == [
        (True,)
    ]
    delete_queue.postpone(resources.pool, made.id)
    waits = "SELECT after - now() <= %s FROM search_index_upkeep WHERE index_id = %s"
    assert do(resources.pool, waits, delete_queue.FIRST_PAUSE, made.id) == [(True,)]


@pytest.mark.parametrize("each", [2, 3, 4])
def test_an_index_with_many_deletes_lets_others_go_first(resources: Resources, each: int) -> None:
    """Just below and above the number of vectors that one sweep deletes from an index."""
    many, few = index(resources), index(resources)
    bury_vectors(resources, many, "10 min")
    bury_vectors(resources, few)
    do(resources.pool, "DELETE FROM chunk_tombstone WHERE id = %s", min(stored(resources, few)))
    deletions.delete_vectors(resources, indexes=1, each=each)
    assert len(stored(resources, many)) == max(0, 3 - each)
    deletions.delete_vectors(resources, indexes=1, each=each)
    assert len(stored(resources, few)) == 1
    for _ in range(2):
        deletions.delete_vectors(resources, indexes=1, each=each)
    assert (left(resources), stored(resources, many)) == (set(), [])


def test_a_sweep_spends_little_time_on_a_store_that_is_slow(
    resources: Resources, unwell: Unwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "SECONDS_PER_STORE", 0.0)
    broken, healthy = index(resources), index(resources)
    unwell.namespaces = {broken.namespace}
    bury_vectors(resources, broken, "10 min")
    bury_vectors(resources, healthy)
    deletions.delete_vectors(resources)
    assert unwell.asked == [broken.namespace]
    deletions.delete_vectors(resources)
    assert unwell.asked == [broken.namespace, healthy.namespace]


def test_vectors_are_deleted_twice_and_only_then_forgotten(resources: Resources) -> None:
    made = index(resources)
    bury_vectors(resources, made)
    deletions.delete_vectors(resources)
    states = "SELECT count(*), count(deleted_at) FROM chunk_tombstone"
    assert do(resources.pool, states) == [(3, 3)]
    assert deletions.delete_vectors(resources) == 0
    # a late write
    ids = [id_ for (id_,) in do(resources.pool, "SELECT id FROM chunk_tombstone")]
    rows = [VectorRow(id_, np.ones(4, dtype=np.float32), {}, Keywords("word", "word")) for id_ in ids]
    lance(resources).write(made.namespace, 4, upserts=rows)
    do(resources.pool, "UPDATE chunk_tombstone SET created_at = now() - interval '6 min'")
    assert deletions.delete_vectors(resources) == 1
    assert (do(resources.pool, states), stored(resources, made)) == ([(0, 0)], [])


#: The age of a tombstone, whether its first delete is confirmed, whether a delete is due, and whether that is the last.
TOMBSTONES = [
    ("10 s", False, False, False),
    ("21 s", False, True, False),
    ("21 s", True, False, False),
    ("4 min", True, False, False),
    ("4 min", False, True, False),
    ("301 s", False, True, True),
    ("301 s", True, True, True),
]


def test_a_vector_is_deleted_once_its_first_delete_is_late_and_again_when_no_write_can_follow(
    resources: Resources,
) -> None:
    alone = [index(resources) for _ in TOMBSTONES]
    together = index(resources)
    ids = {made.id: [uuid4() for _ in TOMBSTONES] for made in (*alone, together)}
    for number, (age, is_confirmed, _, _) in enumerate(TOMBSTONES):
        for owner in (alone[number], together):
            do(resources.pool, ADD_TOMBSTONE, ids[owner.id][number], owner.id, age, is_confirmed)
    found = chunks.due_tombstones(resources.pool, "lancedb", indexes=100, each=100)
    due = {tombstones.index_id: (set(tombstones.ids), set(tombstones.final)) for tombstones in found}
    expected: dict[UUID, tuple[set[UUID], set[UUID]]] = {together.id: (set(), set())}
    for number, (_, _, is_due, is_last) in enumerate(TOMBSTONES):
        for owner in (alone[number], together):
            id_ = ids[owner.id][number]
            if is_due:
                expected.setdefault(owner.id, (set(), set()))[0].add(id_)
            if is_last:
                expected[owner.id][1].add(id_)
    assert due == expected


def test_a_deleted_index_keeps_its_row_until_no_late_write_can_follow(resources: Resources) -> None:
    made = index(resources)
    add_file(resources, made)
    listing = "INSERT INTO search_index_listing SELECT id, gen_random_uuid() FROM search_index_task WHERE index_id = %s"
    do(resources.pool, listing, made.id)
    bury_vectors(resources, made)
    for age, rows in (("1 s", 1), ("6 min", 0)):
        bury(resources, made, age)
        assert deletions.purge_indexes(resources) == 1
        assert stored(resources, made) == []
        for table in ("search_index_file", "chunk_tombstone", "search_index_listing"):
            assert do(resources.pool, f"SELECT 1 FROM {table}") == [], table
        assert tools.list_buried(resources.pool, "lancedb", 10) == []
        assert len(do(resources.pool, "SELECT id FROM search_index WHERE id = %s", made.id)) == rows
        late = [VectorRow(uuid4(), np.ones(4, dtype=np.float32), {}, Keywords("word", "word"))]
        lance(resources).write(made.namespace, 4, upserts=late)


def test_an_index_that_a_tool_just_left_keeps_its_vectors_for_running_searches(resources: Resources) -> None:
    made = index(resources)
    add_file(resources, made)
    bury(resources, made, "-20 s")
    assert (deletions.purge_indexes(resources), len(stored(resources, made))) == (0, 3)


def test_a_purge_that_was_not_done_at_once_goes_on_after_the_others(resources: Resources) -> None:
    older, newer = index(resources), index(resources)
    bury(resources, older, "2 h")
    bury(resources, newer, "1 h")
    order = []
    for _ in range(4):
        (next_one,) = tools.list_buried(resources.pool, "lancedb", 1)
        order.append(next_one.id)
        delete_queue.requeue(resources.pool, next_one.id)
    assert order == [older.id, newer.id] * 2


def test_vectors_of_a_late_writer_are_deleted_anew(resources: Resources) -> None:
    made = index(resources)
    known, unknown = uuid4(), uuid4()
    do(resources.pool, ADD_TOMBSTONE, known, made.id, "6 min", True)
    add_file(resources, made)
    ((of_row,),) = do(resources.pool, ADD_CHUNK, made.id)
    assert chunks.bury_strays(resources.pool, made.id, [known, unknown, of_row])
    waiting = "SELECT id FROM chunk_tombstone WHERE deleted_at IS NULL AND created_at > now() - interval '1 min'"
    assert {id_ for (id_,) in do(resources.pool, waiting)} == {known, unknown}


@pytest.mark.parametrize(("age", "is_there"), [("-20 s", True), ("1 s", False)])
def test_a_late_writer_hears_whether_the_namespace_still_answers(
    resources: Resources, age: str, is_there: bool
) -> None:
    made = index(resources)
    bury(resources, made, age)
    assert chunks.bury_strays(resources.pool, made.id, [uuid4()]) == is_there
    assert len(do(resources.pool, "SELECT id FROM chunk_tombstone")) == is_there


def test_a_deleted_index_takes_the_namespaces_derived_from_it_along(resources: Resources) -> None:
    made, other = index(resources), index(resources)
    with resources.pool.connection() as connection:
        namespaces.register(connection, [made.id, other.id], ".tree")
    for owner in (made, other):
        row = VectorRow(uuid4(), np.ones(4, dtype=np.float32), {}, Keywords("word", "word"))
        lance(resources).write(f"{owner.namespace}.tree", 4, upserts=[row])
    bury(resources, made)
    assert deletions.purge_indexes(resources) == 1
    left_rows = [len(lance(resources).ids(f"{owner.namespace}.tree", None, 10)) for owner in (made, other)]
    assert (left_rows, stored(resources, made)) == ([0, 1], [])
    watched = do(resources.pool, "SELECT name FROM namespace_name WHERE next_check_at > now()")
    assert {name for (name,) in watched} == {made.namespace, f"{made.namespace}.tree"}


def test_rows_that_somebody_holds_delay_their_own_index_only(resources: Resources, tmp_path: Path) -> None:
    held, free = changed(resources, 10), changed(resources, 1)
    impatient = f"{resources.settings.database_url}?options=-c%20lock_timeout%3D200ms"
    sweeper = Resources(Settings(database_url=impatient, foldex_home=tmp_path))
    for index_id in (held, free):
        insert = "INSERT INTO chunk_tombstone (id, index_id, created_at) VALUES (%s, %s, now() - interval '10 min')"
        do(resources.pool, insert, uuid4(), index_id)
    with resources.pool.connection() as holder, sweeper.pool:
        holder.execute("SELECT FROM chunk_tombstone WHERE index_id = %s FOR UPDATE", [held])
        holder.execute("SELECT FROM search_index WHERE id = %s FOR NO KEY UPDATE", [held])
        deletions.delete_vectors(sweeper)
        open_tasks.start_due(sweeper)
    assert do(resources.pool, "SELECT index_id FROM chunk_tombstone") == [(held,)]
    assert do(resources.pool, "SELECT index_id FROM search_index_change WHERE due_at IS NOT NULL") == [(held,)]


def test_an_index_that_another_sweep_purged_meanwhile_is_no_error(resources: Resources) -> None:
    for record in (delete_queue.note_done, delete_queue.requeue, delete_queue.postpone):
        record(resources.pool, uuid4())


def changed(resources: Resources, minutes: int) -> UUID:
    made = index(resources)
    changes.note_change(resources.pool, made.id)
    do(
        resources.pool,
        "UPDATE search_index_change SET due_at = now() - make_interval(mins => %s) WHERE index_id = %s",
        *(minutes, made.id),
    )
    return made.id


@pytest.mark.parametrize("failing", [1, 2])
def test_runs_that_cannot_be_started_starve_no_others(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    broken = [changed(resources, 10) for _ in range(failing)]
    healthy = changed(resources, 1)
    due, start, started = changes.due, changes.start, []

    def fail_some(pool: Pool, index_id: UUID, rest: timedelta) -> changes.StartedTask | None:
        if index_id in broken:
            raise psycopg.DataError("a mistake")
        started.append(index_id)
        return start(pool, index_id, rest)

    monkeypatch.setattr(changes, "due", lambda pool: due(pool, 2))
    monkeypatch.setattr(changes, "start", fail_some)
    for _ in range(2):
        open_tasks.start_due(resources)
    assert started == [healthy]
    waiting = do(resources.pool, "SELECT index_id FROM search_index_change WHERE due_at > now()")
    assert {index_id for (index_id,) in waiting} == set(broken)


@pytest.mark.parametrize("number", [2, 3])
def test_tools_and_checks_beyond_a_sweeps_number_come_next(resources: Resources, number: int) -> None:
    made = [index(resources).id for _ in range(number)]
    do(resources.pool, "UPDATE search_index_task SET status = 'ready'")
    do(resources.pool, "UPDATE search_index SET checked_at = NULL")
    assert [len(drift.take_due(resources.pool, 2)) for _ in range(3)] == [2, number - 2, 0]
    do(resources.pool, "UPDATE search_tool SET next_run_at = now(), config = '{\"every\": 3600}'")
    taken = "SELECT count(*) FROM search_index_change WHERE due_at <= now()"
    for expected in (2, number, number):
        changes.schedule(resources.pool, 2)
        assert do(resources.pool, taken) == [(expected,)]
    assert len(changes.due(resources.pool, 2)) == 2
    assert len(changes.due(resources.pool, number)) == len(made)


#: Leaves Postgres little but a nested loop that runs its inner side once for each outer row.
NESTED_LOOPS = " ".join(f"-c enable_{plan}=off" for plan in ("hashjoin", "hashagg", "sort", "material"))


def test_a_batch_keeps_its_limit_under_any_plan(resources: Resources, database_url: str) -> None:
    """A subquery with LIMIT and SKIP LOCKED that runs twice locks different rows the second time."""
    for _ in range(5):
        index(resources)
    do(resources.pool, "UPDATE search_index_task SET status = 'ready'")
    do(resources.pool, "UPDATE search_index SET checked_at = NULL")
    do(resources.pool, "UPDATE namespace_name SET next_check_at = now()")
    do(resources.pool, "ANALYZE")
    values = {"every": timedelta(hours=1), "longest": timedelta(days=1), "limit": 2, "pause": timedelta(hours=1)}
    values["stores"] = ["lancedb"]
    with psycopg.connect(database_url, options=NESTED_LOOPS) as connection:
        for file, name in (("index/drift", "due"), ("index/namespaces", "take_due")):
            assert connection.execute(load(file)[name], values).rowcount == 2
