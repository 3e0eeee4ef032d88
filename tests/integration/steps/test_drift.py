"""What is counted and mended in the rows of an index, for rows in every state beside equal ones of another index."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import numpy as np
import pytest

from tests.integration.shelf import AroundStore
from tests.integration.steps.site import Site, listed_site, new_site, refused
from worker.index.pipeline import index_files
from worker.resources import Resources
from worker.state.index import chunks, drift, embedding_cache, tool_actions, tools
from worker.state.index.chunks import FIRST_DELETE, LATE_WRITE
from worker.state.index.drift import ChunkCounts
from worker.state.index.embedding_cache import VectorOwner
from worker.tokens.keywords import keywords_of
from worker.upkeep import fsck
from worker.vectors import VectorStore

pytestmark = pytest.mark.usefixtures("nobody_else")

BOTH = (False, True)
#: A time whose files are not about to change again.
LONG_AGO = 1_000_000_000


class ChunkState(NamedTuple):
    """A chunk, which is this index's `own` or the other's."""

    id: UUID
    hash: str
    own: bool
    live: bool
    embedded: bool
    lost: bool


@pytest.fixture
def pair(resources: Resources) -> tuple[Site, Site]:
    """Two idle indexes over a file each."""
    made = listed_site(resources, 1), listed_site(resources, 1)
    for site in made:
        site.finish_all()
    return made


def spread(pair: tuple[Site, Site]) -> list[ChunkState]:
    """Give both indexes a chunk in every state, with a text of its own, and nothing else."""
    states = []
    for site in pair:
        ((old,),) = site.do("SELECT id FROM chunk WHERE index_id = %s", site.index.id)
        for live, embedded, lost in product(BOTH, BOTH, BOTH):
            hash_ = f"sha256:{uuid4().hex * 2}"
            id_ = site.copy_row("chunk", old, content_hash=hash_, live=live, embedded=embedded, lost=lost)
            states.append(ChunkState(id_, hash_, site is pair[0], live, embedded, lost))
        site.do("DELETE FROM chunk WHERE id = %s", old)
    return states


def ids_of(states: list[ChunkState], wanted: Callable[[ChunkState], bool]) -> list[UUID]:
    return sorted(state.id for state in states if wanted(state))


def bury(site: Site, age: timedelta) -> UUID:
    id_ = uuid4()
    insert = "INSERT INTO chunk_tombstone (id, index_id, created_at) VALUES (%s, %s, now() - %s::interval)"
    site.do(insert, id_, site.index.id, age)
    return id_


@pytest.mark.parametrize("keyword_index", ["store", "postgres"])
def test_the_store_holds_live_chunks_with_a_vector_or_keywords(pair: tuple[Site, Site], keyword_index: str) -> None:
    site, states = pair[0], spread(pair)
    site.do("UPDATE search_index SET keyword_index = %s WHERE id = %s", keyword_index, site.index.id)
    expected = ids_of(states, lambda s: s.own and s.live and (s.embedded or keyword_index == "store"))
    for limit in (1, 3, 100):
        found: list[UUID] = []
        # one page more than there are
        for _ in range(len(expected) + 1):
            found += drift.live_ids(site.pool, site.index.id, found[-1] if found else None, limit)
        assert found == expected


def test_a_vector_is_lost_if_its_chunk_is_live_and_a_stray_if_no_row_explains_it(pair: tuple[Site, Site]) -> None:
    site, states = pair[0], spread(pair)
    everything = [state.id for state in states]
    for include_lost in BOTH:
        expected = ids_of(states, lambda s: s.own and s.live and (include_lost or not s.lost))  # noqa: B023 - at once
        assert drift.still_live(site.pool, site.index.id, everything, include_lost=include_lost) == expected
    buried, stray = bury(site, timedelta(0)), uuid4()
    unknown = drift.unknown(site.pool, site.index.id, [*everything, buried, stray])
    assert unknown == sorted([stray, *ids_of(states, lambda s: not s.own)])


def test_a_draft_explains_a_vector_while_its_file_is_open(pair: tuple[Site, Site]) -> None:
    site, other = pair
    drafted, live = sorted(uuid4() for _ in range(2)), site.chunks(live=True)
    draft = "INSERT INTO chunk_draft SELECT id, index_id, %s FROM search_index_file WHERE index_id = %s"
    site.do(draft, [*drafted, *live], site.index.id)
    for status, strays in (("pending", []), ("indexing", []), ("failed", drafted), ("indexed", drafted)):
        site.do("UPDATE search_index_file SET status = %s WHERE index_id = %s", status, site.index.id)
        assert drift.unknown(site.pool, site.index.id, [*drafted, *live]) == strays
    assert drift.unknown(other.pool, other.index.id, drafted) == drafted
    assert drift.count_rows(site.pool, site.index.id).unfinished == len(drafted)
    assert drift.bury_unfinished(site.pool, site.index.id) == len(drafted)
    assert (site.tombstones(), site.drafts(), site.chunks(live=True)) == ({*drafted}, set(), live)


def test_only_live_chunks_lose_their_vectors(pair: tuple[Site, Site]) -> None:
    site, states = pair[0], spread(pair)
    lost = "SELECT lost FROM search_index_file WHERE index_id = %s"
    drift.mark_lost(site.pool, site.index.id, ids_of(states, lambda s: s.own and not s.live), None)
    assert site.do(lost, site.index.id) == [(False,)]
    drift.mark_lost(site.pool, site.index.id, ids_of(states, lambda s: s.own), None)
    assert site.do(lost, site.index.id) == [(True,)]
    marked = {id_ for (id_,) in site.do("SELECT id FROM chunk WHERE lost")}
    assert marked >= {*ids_of(states, lambda s: s.lost or (s.own and s.live))}
    assert marked.isdisjoint(ids_of(states, lambda s: not s.lost and not (s.own and s.live)))


def test_a_chunk_is_lost_until_its_vector_is_noted(pair: tuple[Site, Site]) -> None:
    site, states = pair[0], spread(pair)
    lost = ids_of(states, lambda s: s.own and s.live)
    drift.mark_lost(site.pool, site.index.id, lost, None)
    count = "SELECT count(*) FROM chunk WHERE index_id = %s AND live AND lost"
    for noted, left in ((lost[:2], len(lost) - 2), (lost[2:], 0)):
        with site.pool.connection() as connection:
            chunks.note_vectors(connection, noted, forget_words=True)
        assert site.do(count, site.index.id) == [(left,)]


def test_rows_are_counted_by_state_and_tombstones_by_age(pair: tuple[Site, Site]) -> None:
    site, other = pair
    spread(pair)
    for each, age in ((site, 1), (site, 1.1), (site, 0.9), (other, 2)):
        bury(each, age * 2 * LATE_WRITE)
    assert drift.count_rows(site.pool, site.index.id) == ChunkCounts(4, 4, 2)
    assert len(drift.overdue(site.pool, site.index.id, 10)) == 2


@pytest.mark.parametrize(
    ("age", "is_confirmed", "is_due", "is_final"),
    [
        (0.5 * FIRST_DELETE, False, False, False),
        (2 * FIRST_DELETE, False, True, False),
        (2 * FIRST_DELETE, True, False, False),
        (1.1 * LATE_WRITE, True, True, True),
    ],
)
def test_a_vector_is_deleted_until_the_store_confirms_it_and_once_no_writer_is_late(
    pair: tuple[Site, Site], age: timedelta, is_confirmed: bool, is_due: bool, is_final: bool
) -> None:
    site = pair[0]
    buried = bury(site, age)
    if is_confirmed:
        chunks.confirm_deleted(site.pool, [buried])
    due = [
        (index.ids, index.final)
        for index in chunks.due_tombstones(site.pool, "lancedb", indexes=1000, each=10)
        if index.index_id == site.index.id
    ]
    assert due == ([([buried], [buried] if is_final else [])] if is_due else [])


def test_lost_texts_are_paid_again_unless_the_project_has_their_vectors(pair: tuple[Site, Site]) -> None:
    site, other = pair
    states = spread(pair)
    (lost,) = (state for state in states if state[2:] == (True, True, True, True))
    # a second place of the same text
    site.copy_row("chunk", lost.id)
    profile = site.index.settings.embedder
    owner = VectorOwner(site.project, profile)
    others = VectorOwner(other.project, profile), VectorOwner(site.project, profile.model_copy(update={"model": "m"}))
    counts = []
    for holder in (*others, owner):
        counts.append(drift.count_unpaid(site.pool, site.index.id, owner))
        embedding_cache.insert(site.pool, holder, {lost.hash: np.ones(profile.dimensions, dtype=np.float32)})
    assert counts == [1, 1, 1]
    assert drift.count_unpaid(site.pool, site.index.id, owner) == 0


def test_a_search_asks_for_a_comparison_only_where_there_should_be_a_vector(pair: tuple[Site, Site]) -> None:
    site, states = pair[0], spread(pair)
    site.do("UPDATE search_index SET checked_at = now() - interval '2 min' WHERE id = %s", site.index.id)
    ((there,),) = [ids_of(states, lambda s: s[2:] == (True, True, True, False))]
    site.do("UPDATE chunk SET live = false WHERE id = %s", there)
    assert not drift.request_comparison(site.pool, site.index.id)
    site.do("UPDATE chunk SET live = true WHERE id = %s", there)
    assert drift.request_comparison(site.pool, site.index.id)


def test_the_store_should_hold_a_vector_of_an_indexed_file(pair: tuple[Site, Site]) -> None:
    site = pair[0]
    for number, embedded in product((0, 1), BOTH):
        update = "UPDATE search_index_file SET live_chunks = %s, live_embedded = %s WHERE index_id = %s"
        site.do(update, number, embedded, site.index.id)
        assert drift.any_embedded(site.pool, site.index.id) == (number > 0 and embedded)


def test_attributes_are_those_of_live_chunks_of_idle_files(pair: tuple[Site, Site]) -> None:
    site, states = pair[0], spread(pair)
    everything = [state.id for state in states]
    site.do("UPDATE search_index_file SET words_language = 'de' WHERE index_id = %s", site.index.id)
    site.do("UPDATE chunk SET chunk_text = 'houses laufenden', context = '' WHERE index_id = %s", site.index.id)
    # a task that was cancelled had listed the file at another place
    moved = "UPDATE search_index_file SET path = 'moved.md', id_path = '/moved.md' WHERE index_id = %s"
    ((id_path,),) = site.do(moved + " RETURNING live_id_path", site.index.id)
    idle = ids_of(states, lambda s: s.own and s.live and not s.lost)
    _, rows, words = drift.rewrite(site.pool, site.index.id, everything)
    assert sorted(rows) == sorted(drift.read_expected(site.pool, site.index.id, everything)) == idle
    assert {(row["file_name"], row["file_id_path"]) for row in rows.values()} == {("0.md", id_path)}
    german, english = (keywords_of("0.md", "", "houses laufenden", language) for language in ("de", "en"))
    assert [words[id_] for id_ in idle] == [german] * 2 != [english] * 2
    site.do("UPDATE search_index_file SET status = 'pending' WHERE index_id = %s", site.index.id)
    assert drift.read_expected(site.pool, site.index.id, everything) == {}


def test_a_repair_prevails_over_claims_that_a_failover_lost(pair: tuple[Site, Site]) -> None:
    site = pair[0]
    ((last,),) = site.do("SELECT last_value FROM claim_generation")
    generation, _, _ = drift.rewrite(site.pool, site.index.id, [])
    assert generation > last + 900_000
    # claims that follow prevail over it
    (site.folder / "0.md").write_text("Edited.\n")
    site.again()
    (claim,) = site.claim(site.worker())
    assert claim.generation > generation


def add_file(site: Site, **changed: Any) -> UUID:
    """A file like the indexed one, without chunks."""
    query = "SELECT id FROM search_index_file WHERE index_id = %s AND path = '0.md' LIMIT 1"
    ((old,),) = site.do(query, site.index.id)
    row = {"key": f"\\x{uuid4().hex}", "live_chunks": 0, "live_tokens": 0, **changed}
    return site.copy_row("search_index_file", old, **row)


def test_files_whose_vectors_are_lost_are_taken_up_unless_they_wait_already(pair: tuple[Site, Site]) -> None:
    site = pair[0]
    made = {
        (lost, status): add_file(site, lost=lost, status=status, attempts=3, work="read")
        for lost, status in product(BOTH, ("pending", "indexed", "skipped", "failed", "removed"))
    }
    ((epoch,),) = site.do("SELECT epoch FROM search_index WHERE id = %s", site.index.id)
    task = uuid4()
    assert drift.take_up(site.pool, site.index.id, task, epoch) == 1
    state = "SELECT status, work, attempts, task_id = %s FROM search_index_file WHERE id = %s"
    for (lost, status), id_ in made.items():
        is_taken = lost and status == "indexed"
        expected = ("pending", "path", 0, True) if is_taken else (status, "read", 3, False)
        assert site.do(state, task, id_) == [expected], (lost, status)


def test_wrong_counts_are_told_and_corrected_and_their_files_read_again(pair: tuple[Site, Site]) -> None:
    site, other = pair
    ((chunk,),) = site.do("SELECT id FROM chunk WHERE index_id = %s", site.index.id)
    made = {}
    for there, stated, status in product((0, 2), (0, 1, 2), ("indexed", "skipped")):
        file = add_file(site, live_chunks=stated, live_tokens=9, status=status, stamp="s", live_fingerprint="f")
        made[there, stated, status] = file
        for live in [True] * there + [False]:
            site.copy_row("chunk", chunk, file_id=str(file), live=live, tokens_estimate=5)
    other.do("UPDATE search_index_file SET live_chunks = 7 WHERE index_id = %s", other.index.id)
    bare = [key for key in made if key[0] == 0 and key[2] == "indexed"]
    miscounted = [key for key in made if key not in bare and key[0] != key[1]]
    assert drift.count_wrong_files(site.pool, site.index.id) == (len(miscounted), len(bare)) == (6, 3)
    assert drift.recount(site.pool, site.index.id) == 9
    state = "SELECT live_chunks, live_tokens, stamp, live_fingerprint FROM search_index_file WHERE id = %s"
    for key, id_ in made.items():
        there, stated, _ = key
        mended = (there, 5 * there, "", "" if there else None)
        expected = mended if key in [*bare, *miscounted] else (stated, 9, "s", "f")
        assert site.do(state, id_) == [expected], key
    assert other.do("SELECT live_chunks FROM search_index_file WHERE index_id = %s", other.index.id) == [(7,)]


@pytest.mark.parametrize("state", ["idle", "open task", "deleted"])
def test_an_index_is_mended_only_while_nobody_else_works_on_it(pair: tuple[Site, Site], state: str) -> None:
    site, index = pair[0], pair[0].index
    ((epoch,),) = site.do("SELECT epoch FROM search_index WHERE id = %s", index.id)
    if state == "open task":
        site.start()
    elif state == "deleted":
        tools.delete(site.pool, site.tool)
    asked: dict[str, Callable[[int | None], object]] = {
        "mark_lost": lambda epoch: drift.mark_lost(site.pool, index.id, [], epoch),
        "take_up": lambda epoch: drift.take_up(site.pool, index.id, site.task, epoch or 0),
        "recount": lambda _: drift.recount(site.pool, index.id),
        "bury_unfinished": lambda _: drift.bury_unfinished(site.pool, index.id),
        "rewrite": lambda _: drift.rewrite(site.pool, index.id, []),
        "start": lambda _: drift.start(site.pool, index.id),
    }
    for name, act in asked.items():
        # a task does the first two under its own epoch
        if name != "take_up":
            assert refused(lambda: act(None)) == (state != "idle"), name  # noqa: B023 - at once
        if name in {"mark_lost", "take_up"}:
            ((now,),) = site.do("SELECT epoch FROM search_index WHERE id = %s", index.id)
            assert refused(lambda: act(now)) == (state == "deleted"), name  # noqa: B023 - at once
            assert refused(lambda: act(epoch + 7)), name  # noqa: B023 - at once


def test_a_tool_owns_the_repair_of_the_index_that_is_being_built_for_it(pair: tuple[Site, Site]) -> None:
    site, other = pair
    other.do("UPDATE search_index_file SET lost = true WHERE index_id = %s", other.index.id)
    index_id = other.index.id
    move = "UPDATE search_tool SET index_id = %s, next_index_id = %s, next_config = config WHERE id = %s"
    other.do(move, site.index.id, index_id, other.tool)
    started = drift.start(other.pool, index_id)
    assert other.do("SELECT tool_id FROM search_index_task WHERE id = %s", started) == [(other.tool,)]


def test_an_index_that_was_never_compared_is_the_first_to_be(pair: tuple[Site, Site], resources: Resources) -> None:
    site, other = pair
    busy, deleted = (listed_site(resources, 1) for _ in range(2))
    deleted.finish_all()
    checked = "UPDATE search_index SET checked_at = now() - %s::interval WHERE id = %s"
    for each in (other, busy, deleted):
        each.do(checked, timedelta(days=2), each.index.id)
    site.do("UPDATE search_index SET checked_at = NULL WHERE id = %s", site.index.id)
    index_id = deleted.index.id
    tools.delete(deleted.pool, deleted.tool)
    due = [drift.take_due(site.pool, 1) for _ in range(3)]
    assert due == [[site.index.id], [other.index.id], []]
    assert index_id not in [each.id for each in (site.index, other.index)]


# --- fsck


@dataclass
class Meanwhile(AroundStore):
    """A store beside which something happens while its ids are read."""

    happens: Callable[[], object]

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        self.happens()
        return self.store.ids(namespace, after, limit)


def store_of(site: Site) -> VectorStore:
    return site.resources.store_of(site.index)


def test_an_index_is_busy_if_a_task_was_open_at_any_time_of_the_comparison(pair: tuple[Site, Site]) -> None:
    site = pair[0]
    site.do("UPDATE chunk SET live = false WHERE index_id = %s", site.index.id)

    def set_open(*, is_open: bool) -> None:
        status = "indexing" if is_open else "ready"
        site.do("UPDATE search_index_task SET status = %s WHERE id = %s", status, site.task)

    for before, after in product(BOTH, BOTH):
        set_open(is_open=before)
        report = fsck.inspect(site.pool, Meanwhile(store_of(site), partial(set_open, is_open=after)), site.index)
        busy = before or after
        # rows that a task is writing are not left over
        assert (report.busy, report.unfinished) == (busy, 0 if busy else 1)


def test_a_repair_starts_a_task_for_what_is_to_be_written_or_read_again(pair: tuple[Site, Site]) -> None:
    site, store = pair[0], store_of(pair[0])
    assert fsck.repair(site.pool, store, site.index).task_id is None
    dimensions = site.index.settings.embedder.dimensions
    for is_miscounted, lost, is_paid in ((True, 0, True), (False, 1, True), (False, 1, False), (True, 1, True)):
        if is_miscounted:
            site.do("UPDATE search_index_file SET live_chunks = 7 WHERE index_id = %s", site.index.id)
        if lost:
            store.write(site.index.namespace, dimensions, deletes=list(site.chunks(live=True)))
        if not is_paid:
            site.do("DELETE FROM embedding_cache WHERE project_id = %s", site.project)
        mended = fsck.repair(site.pool, store, site.index)
        assert (mended.recounted, mended.lost, mended.texts) == (int(is_miscounted), lost, int(not is_paid))
        assert mended.task_id is not None
        site.task = mended.task_id
        site.do("UPDATE search_index_task SET listing = false WHERE id = %s", site.task)
        site.finish_all()
        site.prove()


def test_overdue_vectors_are_deleted_in_batches_until_none_is_left(
    pair: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsck, "MAX_DELETES", 2)
    site, other = pair
    for each, number in ((site, 5), (other, 1)):
        for _ in range(number):
            bury(each, 2 * drift.OVERDUE)
    recent = bury(site, timedelta(0))
    assert fsck.repair(site.pool, store_of(site), site.index).deleted == 5
    assert site.tombstones() == {recent}
    assert len(other.tombstones()) == 1


def lose_vectors(site: Site) -> None:
    store_of(site).write(
        site.index.namespace, site.index.settings.embedder.dimensions, deletes=list(site.chunks(live=True))
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_repair_resumes_nothing_that_a_user_cancelled(resources: Resources, is_listed: bool) -> None:
    site = new_site(resources, 4)
    for file in site.folder.iterdir():
        # otherwise the next run would read it again in any case
        os.utime(file, (LONG_AGO, LONG_AGO))
    site.list_folder()
    run = site.worker()
    index_files(run, site.claim(run, 1))
    site.do("UPDATE search_index_task SET listing = %s WHERE id = %s", not is_listed, site.task)
    site.cancel()
    lose_vectors(site)
    before = site.outcomes()
    assert sorted(before.values()) == ["indexed", "pending", "pending", "pending"]
    assert fsck.check(site.pool, store_of(site), site.index) is None
    assert fsck.repair(site.pool, store_of(site), site.index).task_id is None
    assert site.outcomes() == before
    # the next run takes up what was lost, too
    retried = tool_actions.retry(site.pool, site.tool)
    assert retried is not None
    site.task = retried.id
    if not is_listed:
        site.list_folder()
        fsck.mark_lost_before_listing(site.pool, store_of(site), site.index, site.task)
    site.finish_all()
    assert set(site.outcomes().values()) == {"indexed"}
    site.prove()


def test_a_repair_reads_no_file_and_tries_none_that_failed(resources: Resources) -> None:
    site = new_site(resources, 2)
    (site.folder / "broken.pdf").write_bytes(b"%PDF-1.7")
    site.list_folder()
    site.finish_all()
    for file in site.folder.iterdir():
        file.write_text("This was written since.")
    tried = "SELECT path, attempts, status, updated_at FROM search_index_file WHERE index_id = %s AND status = 'failed'"
    failed, texts = site.do(tried, site.index.id), site.chunks(live=True)
    assert [path for path, *_ in failed] == ["broken.pdf"]
    lose_vectors(site)
    site.task = fsck.check(site.pool, store_of(site), site.index) or site.task
    site.finish_all()
    assert site.do(tried, site.index.id) == failed
    assert site.chunks(live=True) == texts
    site.prove()
