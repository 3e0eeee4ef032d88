"""Words are found before their vectors are there, whatever happens to the provider and the workers in between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from schemas.errors import EmbeddingUnauthorized, EmbeddingUnavailable, SliceOver
from tests.integration.shelf import AroundStore, Write
from tests.integration.steps.lagging import AWAY, LONG_AGO, PATHS, Late, Provider
from tests.integration.steps.site import FILES, Killed, Site, write
from worker.embed import Vectors
from worker.index.pipeline import claim_vectors, index_files
from worker.state.index import counting, statuses, tasks, tool_actions, turns
from worker.state.index.files import FileClaim
from worker.upkeep import fsck


def test_words_are_found_before_any_vector_is_asked_for(late: Late) -> None:
    late.provider.away = AWAY
    late.words()
    assert late.provider.sent == []
    assert late.by_word("apples") == PATHS
    assert late.with_vector() == set()
    assert set(late.columns("status, awaits_vectors, vectors_due, lease_owner")) == {("pending", True, 1, None)}
    assert late.count() == (4, 4, 0, 4, 0)
    ((searchable_at, status),) = late.site.do(
        "SELECT searchable_at, status FROM search_index_task WHERE id = %s", late.site.task
    )
    assert (searchable_at is not None, status) == (True, "indexing")
    late.provider.away = None
    late.vectors()
    assert late.with_vector() == PATHS
    assert late.count() == (4, 4, 4, 4, 4)
    late.prove()
    assert sorted(late.columns("embedded_chunks, reused_chunks, attempts")) == [(1, 0, 1)] * 4


def test_a_provider_that_answers_soon_costs_one_write(late: Late) -> None:
    run = late.worker()
    run.pace.note_answer(1000, 0.01, first=0.01)
    store = Counting(run.store)
    late.words(replace(run, store=store))
    assert (set(late.columns("status, awaits_vectors")), len(store.upserts)) == ({("indexed", False)}, FILES)


@pytest.mark.parametrize(("seconds", "is_late"), [(1.9, False), (2.1, True)])
def test_vectors_are_late_if_all_that_is_left_takes_longer_than_words_may_wait(
    late: Late, seconds: float, is_late: bool
) -> None:
    run = late.worker()
    # any few texts take as long as a request
    run.pace.note_answer(1000, seconds, first=seconds)
    index_files(run, late.site.claim_words(run))
    assert set(late.columns("awaits_vectors")) == {(is_late,)}


@dataclass
class Counting(AroundStore):
    """A store that notes the rows that it gets, each with whether it has a vector."""

    upserts: list[bool] = field(default_factory=list)

    def take(self, write: Write) -> None:
        self.upserts += [row.vector is not None for row in write.upserts]
        self.store.write(*write)


def test_a_provider_that_fails_while_vectors_are_awaited_leaves_the_words(late: Late) -> None:
    run = late.worker()
    run.pace.note_answer(100_000, 0.01, first=0.01)
    late.provider.away = AWAY
    with pytest.raises(EmbeddingUnavailable):
        late.words(run)
    assert late.by_word("apples") == PATHS
    # nothing is known of it any more
    assert run.pace.seconds(1) == float("inf")
    late.end()


def test_an_outage_ends_complete(late: Late) -> None:
    late.provider.away = AWAY
    for _ in range(3):
        run = late.worker()
        with pytest.raises(EmbeddingUnavailable):
            late.slice(run)
        late.site.expire(run)
        assert late.by_word("apples") == PATHS
    late.end()


def test_a_worker_of_an_earlier_release_may_write_the_vectors(late: Late) -> None:
    late.words()
    late.site.do("UPDATE chunk SET lost = false WHERE index_id = %s", late.index.id)
    late.site.do(
        "UPDATE search_index_file SET status = 'indexed', lost = false WHERE index_id = %s AND path <> '0.md'",
        late.index.id,
    )
    assert late.count() == (4, 4, 3, 4, 3)


def test_a_refused_key_leaves_the_words_and_a_retry_reads_no_file(late: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    late.provider.away = EmbeddingUnauthorized("wrong key")
    run = late.worker()
    with pytest.raises(EmbeddingUnauthorized) as refused:
        late.slice(run)
    tasks.fail(late.site.pool, late.site.task, late.index.id, refused.value)
    assert late.by_word("apples") == PATHS
    assert set(late.columns("status, lost, vectors_due, stamp <> ''")) == {("indexed", True, 1, True)}
    late.provider.away = None
    started = tool_actions.retry(late.site.pool, late.site.tool)
    assert started is not None
    late.site.task = started.id
    for path in late.site.folder.iterdir():
        path.unlink()
    late.vectors()
    assert late.site.refresh()
    late.prove()


def test_a_refused_text_keeps_its_words_and_the_other_vectors(late: Late) -> None:
    write(late.site.folder, 0, "A fine text.\n\n" + "words " * 60 + "\n\n# Two\n\n" + "refused apples " * 20)
    late.words()
    late.vectors()
    ((status, reason, due, chunks, stale),) = late.columns(
        "status, reason, vectors_due, live_chunks, NOT (status = 'indexed' OR awaits_vectors)", "0.md"
    )
    assert (status, reason, stale) == ("failed", "embedding_refused", False)
    assert 0 < due < chunks
    assert late.by_word("apples") == PATHS
    assert late.with_vector() == PATHS
    assert late.site.refresh()
    newest = statuses.newest_of_tool(late.site.pool, late.site.tool)
    assert newest is not None
    found = counting.counts(late.site.pool, late.index.id).found_files
    assert (newest.indexed_files, newest.failed_files, newest.searchable_files, found) == (FILES - 1, 1, FILES, FILES)
    sent = len(late.provider.sent)
    # the next run asks for what was refused, and for nothing else
    late.site.again()
    late.words()
    late.vectors()
    assert len(late.provider.sent) == sent
    assert late.site.refresh()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_refused_text_of_a_new_file_keeps_the_words_in_one_write_too(late: Late, is_known: bool) -> None:
    write(late.site.folder, 0, "refused apples")
    run = late.worker()
    if is_known:
        run.pace.note_answer(100_000, 0.01, first=0.01)
    late.words(run)
    late.vectors(run)
    assert late.columns("status, reason, vectors_due", "0.md") == [("failed", "embedding_refused", 1)]
    assert late.by_word("apples") == PATHS


@pytest.fixture
def settled(late: Late) -> Late:
    """A folder that is indexed, and whose unchanged files are not read again."""
    late.end()
    late.provider.sent.clear()
    return late


def edit(late: Late, number: int, text: str) -> None:
    write(late.site.folder, number, text)
    os.utime(late.site.folder / f"{number}.md", (LONG_AGO + 1, LONG_AGO + 1))


def test_an_edited_file_keeps_its_vectors_until_it_has_new_ones(settled: Late) -> None:
    edit(settled, 0, "Now about pears.")
    edit(settled, FILES, "A new file about plums.")
    settled.site.again()
    settled.provider.away = AWAY
    run = settled.worker()
    with pytest.raises(EmbeddingUnavailable):
        settled.slice(run)
    assert (settled.by_word("pears"), settled.by_word("plums")) == (set(), {f"{FILES}.md"})
    assert settled.with_vector() == PATHS
    settled.site.expire(run)
    settled.provider.away = None
    run = settled.worker()
    index_files(run, settled.site.claim_words(run))
    # at once, before vectors that are due
    assert (settled.by_word("pears"), settled.with_vector()) == ({"0.md"}, PATHS)
    settled.end()


def test_words_that_replace_no_vector_wait_for_none(settled: Late) -> None:
    edit(settled, 0, "Before anything else, file 0 tells of apples.\n\n# Another section\n\nThis one tells of pears.")
    settled.site.again()
    settled.provider.away = AWAY
    settled.words()
    assert (settled.by_word("pears"), settled.with_vector()) == ({"0.md"}, PATHS)
    settled.end()


def test_files_are_edited_moved_and_removed_while_vectors_lag(late: Late) -> None:
    late.provider.away = AWAY
    late.words()
    late.site.cancel()
    assert late.by_word("apples") == PATHS
    edit(late, 0, "Now about pears.")
    (late.site.folder / "1.md").rename(late.site.folder / "moved to quinces.md")
    (late.site.folder / "2.md").unlink()
    late.again()
    late.words()
    assert (late.by_word("pears"), late.by_word("quinces")) == ({"0.md"}, {"moved to quinces.md"})
    assert late.by_word("apples") == {"3.md", "moved to quinces.md"}
    assert late.count() == (3, 3, 0, 3, 0)
    late.end()


def test_a_cancelled_run_leaves_its_vectors_to_the_next(late: Late) -> None:
    late.words()
    late.site.cancel()
    assert set(late.columns("status, awaits_vectors, lost")) == {("indexed", True, True)}
    store = late.site.resources.store_of(late.index)
    assert not fsck.inspect(late.site.pool, store, late.index).drift
    late.again()
    run = late.worker()
    assert late.site.claim_words(run) == []
    late.end()


def test_all_files_are_read_again_while_vectors_lag(late: Late) -> None:
    late.words()
    late.site.cancel()
    task = tool_actions.reindex(late.site.pool, late.site.tool, full=True, allow_removals=True)
    assert task is not None
    late.site.task = task
    late.site.list_folder()
    late.words()
    assert late.by_word("apples") == PATHS
    late.end()


def test_a_run_that_is_asked_for_waits_for_words_only(late: Late) -> None:
    late.words()
    edit(late, 0, "Now about pears.")
    assert tool_actions.reindex(late.site.pool, late.site.tool, full=False, allow_removals=True) is None
    holding = late.worker()
    assert claim_vectors(holding, late.site.task)
    closed = tasks.refresh(late.site.pool, late.site.task, late.index.id)
    assert closed is not None
    assert closed.next_task_id is not None
    late.site.task = closed.next_task_id
    # the task that ended so is history; the index is not ready
    newest = statuses.newest_of_tool(late.site.pool, late.site.tool)
    assert newest is not None
    assert (newest.task_id, newest.status) == (late.site.task, "pending")
    late.site.list_folder()
    # what the worker holds returns to the following run
    late.site.expire(holding)
    assert sorted(late.columns("status, awaits_vectors")) == [("pending", False), *[("pending", True)] * 3]
    late.words()
    assert late.by_word("pears") == {"0.md"}
    late.end()


def test_a_late_writer_of_words_takes_no_vector_away(late: Late) -> None:
    late.words()
    store = late.site.resources.store_of(late.index)
    recorded = Recording(store)
    claims = late.worker()
    # the same rows as of the first step, sent again after the second one
    index_files(replace(claims, store=recorded), claim_vectors(claims, late.site.task))
    assert late.site.refresh()
    (upserts,) = recorded.upserts
    old = [replace(row, vector=None, generation=row.generation - 1000) for row in upserts]
    store.write(late.index.namespace, claims.dimensions, upserts=old)
    late.prove()


@dataclass
class Recording(AroundStore):
    upserts: list[Sequence[Any]] = field(default_factory=list)

    def take(self, write: Write) -> None:
        if write.upserts:
            self.upserts.append(write.upserts)
        self.store.write(*write)


def test_a_text_that_is_too_long_keeps_its_words_until_its_parts_are_there(late: Late) -> None:
    write(late.site.folder, 0, "apples and pears and plums are ripe. " * 6)
    late.words()
    late.provider.longest = 150
    late.vectors()
    assert late.columns("status, vectors_due", "0.md") == [("indexed", 0)]
    assert late.by_word("plums") == {"0.md"}
    late.provider.longest = 1 << 20
    late.end()


def test_vectors_that_arrived_are_written_when_an_outage_begins(late: Late) -> None:
    write(late.site.folder, 0, "\n\n".join(f"# Part {number}\n\n{'many words ' * 30} {number}" for number in range(60)))
    late.words()
    ((chunks,),) = late.columns("live_chunks", "0.md")

    class Failing(Provider):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if self.sent:
                raise AWAY
            return super().embed(texts)

    late.provider = Failing(late.provider._embedder)
    run = late.worker()
    with pytest.raises(EmbeddingUnavailable):
        late.vectors(run)
    due = sum(due for (due,) in late.columns("vectors_due"))
    assert 0 < due < chunks + 3
    assert late.count()[4] == chunks + 3 - due
    late.site.expire(run)
    late.provider.sent, sent = [], late.provider.sent
    failing, late.provider = late.provider, Provider(late.provider._embedder)
    late.end()
    assert not {*late.provider.sent} & {*sent}
    assert failing.sent == []


def test_vectors_give_way_to_words_of_others_and_continue(late: Late) -> None:
    write(late.site.folder, 0, "\n\n".join(f"# Part {number}\n\n{'many words ' * 30} {number}" for number in range(60)))
    late.words()
    run = replace(late.worker(), gives_way=lambda: True)
    turns = 0
    while set(late.columns("status")) != {("indexed",)}:
        before = len(late.provider.sent)
        with suppress(SliceOver):
            late.slice(run)
        # one request at least, so that nobody starves
        assert 0 < len(late.provider.sent) - before <= 32
        turns += 1
        late.site.expire(run)
    assert turns >= 2
    late.end()


def test_words_of_a_project_come_before_its_vectors(late: Late, nobody_else: None) -> None:
    late.words()
    site = late.site
    other_folder = site.resources.home.parent / f"other-{site.task}"
    other_folder.mkdir()
    write(other_folder, 0, "other words")
    other = Site(site.resources, other_folder, project=site.project)
    other.list_folder()
    site.do("UPDATE search_index_task SET sent_at = NULL WHERE status IN ('pending', 'indexing')")
    mine = {site.task, other.task}
    chosen = turns.fairest(site.pool, preferred=site.task)
    assert chosen not in mine or chosen == other.task
    assert turns.words_wait(site.pool)


# --- a process that ends anywhere


@dataclass
class Dying(AroundStore):
    """A store beside whose write the process ends."""

    after: bool

    def take(self, write: Write) -> None:
        if self.after:
            self.store.write(*write)
        raise Killed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["words", "vectors"])
def test_a_process_that_ends_beside_a_write_of_either_step_loses_nothing(late: Late, step: str, after: bool) -> None:
    if step == "vectors":
        late.words()
    run = late.worker()
    dying = replace(run, store=Dying(run.store, after))
    with pytest.raises(Killed):
        late.words(dying) if step == "words" else late.vectors(dying)
    late.site.expire(run)
    late.end()


def test_one_step_after_a_process_died_in_two_and_the_other_way_round(late: Late) -> None:
    for known in (False, True, False):
        run = late.worker()
        if known:
            run.pace.note_answer(100_000, 0.01, first=0.01)
        with pytest.raises(Killed):
            late.words(replace(run, store=Dying(run.store, after=False)))
        late.site.expire(run)
    late.words()
    assert late.by_word("apples") == PATHS
    late.end()


# --- a random life


def act(late: Late, random: Random) -> None:
    """Let something happen to the folder, the provider, or a worker."""
    site, action = late.site, random.choice(["edit", "add", "delete", "move", "outage", "words", "vectors", "kill"])
    files = sorted(site.folder.iterdir())
    target = random.choice(files) if files else None
    if action == "add" or target is None:
        edit(late, random.randint(10, 20), f"text {random.random()} about figs")
    elif action == "edit":
        target.write_text(f"# Head {random.random()}\n\n{'figs and more ' * random.randint(1, 60)}\n")
    elif action == "delete":
        target.unlink()
    elif action == "move":
        target.rename(site.folder / f"{random.randint(30, 40)}.md")
    elif action == "outage":
        late.provider.away = random.choice([AWAY, None])
    else:
        run = late.worker()
        if random.random() < 0.3:
            run.pace.note_answer(100_000, 0.01, first=0.01)
        if action == "kill":
            run = replace(run, store=Dying(run.store, random.choice([True, False])))
        claims: Sequence[FileClaim] = site.claim_words(run, random.randint(1, 4))
        claims = claims or claim_vectors(run, site.task)
        with suppress(EmbeddingUnavailable, Killed):
            index_files(run, claims)
        site.expire(run)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_while_vectors_lag_the_run_ends_complete(late: Late, seed: int) -> None:
    random = Random(seed)
    for _ in range(4):
        for _ in range(6):
            act(late, random)
            live, words = late.site.chunks(live=True), late.site.vectors()
            assert live <= words
        if random.random() < 0.5:
            late.site.cancel()
        else:
            late.end()
        late.again()
    late.end()
