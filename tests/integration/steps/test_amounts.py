"""Amounts just below and above what one step takes: searches, filters, callers, purges and repairs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import numpy as np
import pytest

from api.http.disconnect import Disconnect
from api.http.metrics import BacklogCollector
from api.search.code import calls
from api.search.pipeline import answer_query
from api.search.query.file_filter import MAX_IDS, select_files
from api.search.query.filters import resolve_filters
from api.search.query.index_search import MAX_DEPTH
from schemas.errors import FolderGone
from schemas.queries.search import Answer, Filters, Query
from schemas.status import TaskStatus
from schemas.tool import ToolConfig
from tests.integration.steps.site import FILES, Site, embedded, write
from tests.service import eventually
from worker.index.commit import finish
from worker.index.file_states import EmbeddedFile, PreparedFile
from worker.index.pipeline import index_files
from worker.index.prepare import read_files
from worker.index.write import write as write_rows
from worker.resources import Resources
from worker.state.index import index_switch, tasks, tool_actions, tools
from worker.state.search import code_texts, found_chunks
from worker.upkeep import fsck
from worker.vectors.turbopuffer_rows import MAX_LIMIT

#: More than the candidates that features rank, and more than the smallest search depth.
MANY = 130

MORE_FILES = (
    "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version,"
    " status, live_chunks, type) SELECT gen_random_uuid(), %s, n::text::bytea, 'sub/' || n || '.md',"
    " '/sub/' || n || '.md', 1, %s, 's', '1', 'indexed', 1, 'markdown' FROM generate_series(1, %s::int) n"
)


def new_site(resources: Resources, number: int, **settings: object) -> Site:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    for name in range(number):
        write(folder, name, f"The pineapple of file {name} has {name * 7919} leaves.")
    made = Site(resources, folder, settings=settings)
    made.list_folder()
    return made


def answer(site: Site, **asked: object) -> Answer:
    query = Query.model_validate({"query": "pineapple", **asked})
    return answer_query(site.resources, site.tool, site.index, query, disconnect=Disconnect())


# --- searches


@pytest.fixture(scope="module")
def many(resources: Resources) -> Site:
    """Use made-up vectors: computing them would take most of this module's time."""
    site = new_site(resources, MANY)
    run = site.worker()
    chance = np.random.default_rng(7)
    made = []
    for file in read_files(run, site.claim(run)):
        rows = chance.normal(size=(len(file.new), run.dimensions)).astype(np.float32)
        vectors = {chunk.id: row / np.linalg.norm(row) for chunk, row in zip(file.new, rows, strict=True)}
        made.append(EmbeddedFile(file, vectors))
    finish(run, write_rows(run, made))
    assert site.refresh()
    return site


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize("top_k", [63, 64, 65, 100, 101, MANY, MANY + 1])
def test_as_many_hits_come_as_are_asked_for(many: Site, mode: str, top_k: int) -> None:
    results = answer(many, mode=mode, top_k=top_k).results
    assert len({hit.chunk_id for hit in results}) == len(results) == min(top_k, MANY)
    scores = [hit.score for hit in results]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("deepest", [MANY - 1, MANY, MANY + 1])
def test_a_search_looks_no_deeper_than_its_bound(many: Site, monkeypatch: pytest.MonkeyPatch, deepest: int) -> None:
    monkeypatch.setattr("api.search.pipeline.MAX_DEPTH", deepest)
    for mode in ("vector", "keyword"):
        assert len(answer(many, mode=mode, top_k=MANY + 1).results) == min(deepest, MANY), mode


@pytest.mark.parametrize("top_k", [MAX_DEPTH // 2, MAX_DEPTH // 2 + 1, MAX_DEPTH])
def test_a_store_takes_the_deepest_search(many: Site, top_k: int) -> None:
    assert len(answer(many, mode="vector", top_k=top_k).results) == MANY
    # a deeper search would be cut there
    assert MAX_DEPTH <= MAX_LIMIT


def test_a_level_is_filtered_by(site: Site) -> None:
    run = site.worker()
    first, *others = embedded(site, run)
    assert isinstance(first.state, PreparedFile)
    chunks_ = [replace(chunk, chunk=chunk.chunk._replace(level=1)) for chunk in first.state.chunks]
    raised = replace(first, state=replace(first.state, chunks=chunks_))
    finish(run, write_rows(run, [raised, *others]))
    for mode in ("hybrid", "vector", "keyword"):
        found = [
            {hit.file_path for hit in answer(site, query="apples", mode=mode, filters={"level": level}).results}
            for level in (0, 1)
        ]
        assert found == [site.outcomes().keys() - {raised.claim.path}, {raised.claim.path}], mode
    # if Postgres has the keywords, it is searched too
    everything = [str(id_) for id_ in site.chunks(live=True)]
    values = resolve_filters(site.pool, site.index, Filters(level=1)).values
    assert found_chunks.passing(site.pool, everything, values) == [str(chunk.id) for chunk in chunks_]


@pytest.mark.parametrize(("number", "is_told_shortly"), [(MAX_IDS, False), (MAX_IDS + 1, True)])
def test_many_chosen_files_are_told_by_their_folder(site: Site, number: int, is_told_shortly: bool) -> None:
    site.do(MORE_FILES, site.index.id, site.task, number)
    chosen = select_files(site.pool, site.index, Filters(path="sub/**"), None, None)
    assert chosen is not None
    assert (chosen.folders, len(chosen.ids or ())) == ((["/sub"], 0) if is_told_shortly else (None, number))


@pytest.mark.parametrize(("number", "is_cut"), [(500, False), (501, True)])
def test_callers_are_told_up_to_a_bound(resources: Resources, number: int, is_cut: bool) -> None:
    # found by keywords only, so that nothing is embedded
    site = new_site(resources, 0, max_token_count=1)
    text = "def target():\n    return 1\n\n\n" + "".join(f"def c{n}():\n    target()\n\n\n" for n in range(number))
    (site.folder / "a.py").write_text(text)
    site.cancel()
    site.again()
    site.finish_all()
    index_id = site.index.id
    start = code_texts.named(site.pool, index_id, "target", 1)
    found = calls.callers(site.pool, index_id, "target", start, 1)
    assert (len({call.name for call in found.items}), found.is_cut) == (min(number, calls.MAX_CALLS), is_cut)


# --- waiting tasks


def gauges(resources: Resources) -> dict[str, float]:
    return {
        sample.name: sample.value for metric in BacklogCollector(resources.pool).collect() for sample in metric.samples
    }


def test_files_that_wait_are_counted(resources: Resources) -> None:
    resources.pool.wait()
    before = gauges(resources)
    site = new_site(resources, FILES)
    site.refresh()
    assert gauges(resources)["foldex_files_pending"] == before["foldex_files_pending"] + FILES
    assert gauges(resources)["foldex_oldest_task_seconds"] > 0
    run = site.worker()
    index_files(run, site.claim(run, 1))

    def counted() -> bool:
        # counting is expensive, so it is not done each time
        site.refresh()
        return gauges(resources)["foldex_files_pending"] == before["foldex_files_pending"] + FILES - 1

    eventually(counted, 10)
    site.finish_all()
    assert gauges(resources)["foldex_files_pending"] == before["foldex_files_pending"]


# --- deletions


@pytest.mark.parametrize("final", [False, True])
def test_an_index_of_any_size_goes_whole(site: Site, final: bool) -> None:
    index_id = site.index.id
    site.do(MORE_FILES, index_id, site.task, 5_001)
    tools.delete(site.pool, site.tool)
    # a round ends early on a busy machine
    eventually(lambda: tools.purge(site.pool, index_id, final=final), 60)
    for table in ("chunk", "search_index_file"):
        assert site.do(f"SELECT id FROM {table} WHERE index_id = %s LIMIT 1", index_id) == []
    # until the end its row reserves the namespace's name
    assert len(site.do("SELECT id FROM search_index WHERE id = %s", index_id)) == (0 if final else 1)


def test_forgotten_tombstones_of_any_number_are_seen_to(site: Site) -> None:
    site.finish_all()
    index = site.index
    site.do(
        "INSERT INTO chunk_tombstone (id, index_id, created_at)"
        " SELECT gen_random_uuid(), %s, now() - interval '1 h' FROM generate_series(1, %s::int)",
        *(index.id, fsck.MAX_DELETES + 1),
    )
    mended = fsck.repair(site.pool, site.resources.store_of(index), index)
    assert mended.deleted == fsck.MAX_DELETES + 1
    assert site.tombstones() == set()
    site.prove()


# --- one index replaces another


@pytest.fixture
def moving(site: Site) -> tuple[Site, UUID, UUID]:
    """A tool that switches from one index to another, whose folder is listed."""
    site.finish_all()
    old = site.index.id
    wanted = site.wanted(chunks={"size": 128, "overlap": 0})
    task = tool_actions.change_config(site.pool, site.tool, ToolConfig(), wanted)
    assert task is not None
    ((new,),) = site.do("SELECT next_index_id FROM search_tool WHERE id = %s", site.tool)
    return site, old, new


def end(site: Site, index_id: UUID, status: str) -> None:
    """End the task of an index."""
    with site.pool.connection() as connection:
        index_switch.lock_index(connection, index_id)
        index_switch.settle(connection, index_id, TaskStatus(status), None)


def test_an_index_that_is_left_lingers_for_the_queries_that_read_it(moving: tuple[Site, UUID, UUID]) -> None:
    site, old, new = moving
    assert tools.index(site.pool, new) is not None
    end(site, new, "ready")
    assert site.index.id == new
    deleted = "SELECT deleted_at - now() FROM search_index WHERE id = %s"
    ((left,),) = site.do(deleted, old)
    assert timedelta(0) < index_switch.LINGER - left < timedelta(seconds=5)
    assert timedelta(seconds=30) <= index_switch.LINGER
    assert old not in {each.id for each in tools.list_buried(site.pool, "lancedb", 100)}
    site.do("UPDATE search_index SET deleted_at = deleted_at - %s WHERE id = %s", index_switch.LINGER, old)
    assert [each.final for each in tools.list_buried(site.pool, "lancedb", 100) if each.id == old] == [False]


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_an_index_that_was_never_ready_takes_no_place(moving: tuple[Site, UUID, UUID], status: str) -> None:
    site, old, new = moving
    end(site, new, status)
    assert site.index.id == old
    assert site.do("SELECT next_index_id, update_error IS NULL FROM search_tool WHERE id = %s", site.tool) == [
        (None, False)
    ]
    assert (
        new in {each.id for each in tools.list_buried(site.pool, "lancedb", 100)} or tools.index(site.pool, new) is None
    )


def test_a_new_index_is_given_up_only_after_the_run_that_was_requested_meanwhile(
    moving: tuple[Site, UUID, UUID],
) -> None:
    site, _, new = moving
    tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False)
    runs = "SELECT id FROM search_index_task WHERE index_id = %s AND status = 'pending'"
    for follows in (True, False):
        ((task,),) = site.do(runs, new)
        closed = tasks.fail(site.pool, task, new, FolderGone("it is gone"))
        assert closed is not None
        assert (closed.next_task_id is not None) is follows
        waiting = "SELECT count(*) FROM search_tool WHERE next_index_id = %s"
        assert site.do(waiting, new) == [(int(follows),)]
    assert site.do(runs, new) == []


def test_an_index_stays_as_long_as_a_tool_refers_to_it(site: Site) -> None:
    index_id = site.index.id
    other, _ = tools.create(site.pool, site.wanted(), name="", config=ToolConfig())
    tools.delete(site.pool, site.tool)
    assert tools.index(site.pool, index_id) is not None
    tools.delete(site.pool, other)
    assert tools.index(site.pool, index_id) is None
    assert site.do("SELECT status FROM search_index_task WHERE id = %s", site.task) == [("cancelled",)]
