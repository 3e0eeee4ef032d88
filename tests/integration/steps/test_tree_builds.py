"""What a build of a tree keeps, forgets and tries again, and when the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from schemas.errors import EmbeddingRefused, LlmFailed
from tests.integration.steps.forest import Counting, Forest, texts
from tests.integration.steps.site import Site
from worker.embed import Vectors, WrappedEmbedder
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.messages import RESEND_AFTER
from worker.state.index.tasks import LONGEST_WAIT
from worker.state.tree import trees
from worker.tree.build import MAX_FAILURES, build_slice
from worker.tree.summaries import Check, SummaryResult
from worker.upkeep import deletions

SOMETHING_ELSE = "Something else entirely is written here now."


class Without(Counting):
    """Makes no summary, for a reason."""

    reason = "no_words"

    def summarise(self, texts: Sequence[str], check: Check) -> SummaryResult:
        super().summarise(texts, check)
        return SummaryResult(None, self.reason)


class Refusing(WrappedEmbedder):
    """Refuses texts about engines."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        refused = [number for number, text in enumerate(texts) if "engine" in text]
        if refused:
            raise EmbeddingRefused("not this one", indices=refused)
        return self._embedder.embed(texts)


class Single(WrappedEmbedder):
    """Takes one text per request."""

    max_inputs = 1

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert len(texts) == 1
        return self._embedder.embed(texts)


def test_summaries_that_take_several_requests_all_have_vectors(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(30))
    run = forest.run(forest.begin())
    assert build_slice(replace(run, embedder=Single(run.embedder)), 600)
    assert len(forest.summariser.asked) > 2
    assert len(forest.stored()) == len(forest.summariser.asked)
    assert forest.tree.skipped == {}
    forest.prove()


def test_a_summary_of_fewer_texts_than_its_cluster_has_is_made_again(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(12))
    edits = iter([True])

    def edit() -> None:
        # the first cluster has its texts already; this one is of the last
        if next(edits, False):
            forest.write(9, SOMETHING_ELSE)
            forest.index()

    assert build_slice(forest.run(forest.begin(), Counting(edit)), 600)
    trees.reconcile(forest.site.pool)
    forest.build()
    forest.write(9, texts(12)[9])
    forest.index()
    assert any(texts(12)[9] in text for call in forest.build() for text in call)


def test_a_text_that_is_removed_leaves_the_tree(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(4))
    forest.build()
    (forest.site.folder / "3.md").unlink()
    forest.index()
    assert forest.stale() == 1
    forest.build()
    assert forest.stale() == 0
    assert dict(forest.levels())[0] == 3


def test_clusters_without_words_end_no_build_and_have_another_chance(forest: Forest) -> None:
    forest.configure(max_layers=1)
    forest.fill(texts(40))
    without = Without()
    assert build_slice(forest.run(forest.begin(), without), 600)
    clusters = len(without.asked)
    assert clusters > MAX_FAILURES
    assert forest.tree.skipped == {"no_words": clusters}
    trees.request(forest.site.pool, forest.tree.id, full=True)
    assert len(forest.build()) == clusters
    assert forest.tree.skipped == {}


def test_a_summary_that_the_provider_does_not_embed_is_left_out(forest: Forest) -> None:
    forest.configure(max_layers=1)
    forest.fill(texts(30))
    run = forest.run(forest.begin())
    assert build_slice(replace(run, embedder=Refusing(run.embedder)), 600)
    assert forest.tree.skipped["not_embedded"] > 0
    assert forest.nodes()
    assert not any("engine" in text for _, text in forest.nodes())
    forest.prove()


def test_a_build_that_is_cancelled_before_it_began_does_not_start_by_itself(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(3))
    assert forest.tree.status == "pending"
    assert trees.cancel(forest.site.pool, forest.tree.id)
    trees.reconcile(forest.site.pool)
    assert forest.tree.status == "cancelled"


@pytest.mark.parametrize("full", [False, True])
def test_a_request_joins_a_build_that_has_not_fixed_its_texts(forest: Forest, full: bool) -> None:
    forest.configure()
    forest.fill(texts(3))
    trees.request(forest.site.pool, forest.tree.id, full=full)
    build = forest.begin()
    assert build.is_full == full
    assert build_slice(forest.run(build), 600)
    assert forest.tree.status == "indexed"


@pytest.mark.parametrize("full", [False, True])
def test_a_request_during_a_build_is_met_by_the_next(forest: Forest, full: bool) -> None:
    forest.configure()
    forest.fill(texts(3))
    seen: list[bool] = []

    def request() -> None:
        trees.request(forest.site.pool, forest.tree.id, full=full)
        [(is_full,)] = forest.site.do("SELECT is_full FROM summary_tree WHERE id = %s", forest.tree.id)
        seen.append(is_full)

    assert build_slice(forest.run(forest.begin(), Counting(request)), 600)
    assert seen == [False]
    assert forest.tree.status == "pending"
    assert forest.begin().is_full == full


def test_only_a_worker_that_did_not_give_its_build_back_counts_as_dead(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(3))
    pool, tree = forest.site.pool, forest.tree.id
    for _ in range(3):
        owner = uuid4()
        build = trees.begin(pool, tree, owner)
        assert build is not None
        assert build.deaths == 0
        trees.release(pool, tree, owner)
    forest.begin()
    forest.expire()
    assert forest.begin().deaths == 1


def test_summaries_that_no_build_used_for_long_are_forgotten(forest: Forest, resources: Resources) -> None:
    forest.configure()
    forest.fill(texts(12))
    forest.build()
    other = Forest(Site(resources, forest.site.folder))
    other.configure()
    of_other = "INSERT INTO summary_cache (project_id, key, tree_id, text) VALUES (%s, 'k', %s, 't')"
    other.site.do(of_other, other.site.project, other.tree.id)
    forest.write(3, SOMETHING_ELSE)
    forest.index()
    forest.build()
    forest.site.do("UPDATE summary_cache SET used_at = now() - interval '31 days'")
    forest.write(3, texts(12)[3])
    forest.index()
    assert forest.build() == []
    kept = "SELECT count(*) FROM summary_cache WHERE project_id = %s AND used_at {} now() - interval '30 days'"
    assert forest.site.do(kept.format("<"), forest.site.project) == [(0,)]
    # what the last build took from the cache
    assert forest.site.do(kept.format(">"), forest.site.project) != [(0,)]
    assert forest.site.do(kept.format("<"), other.site.project) == [(1,)]


@pytest.mark.parametrize(
    ("state", "is_due"),
    [
        ("sent_at = NULL", True),
        ("sent_at = now() - interval '1 s'", False),
        ("sent_at = now() - %(resend)s - interval '1 s'", True),
        # given back for a while
        ("sent_at = now() + interval '30 s'", False),
        # Postgres' clock was set back
        ("sent_at = now() + %(longest)s + interval '1 h'", True),
        ("lease_until = now() + interval '6 s'", False),
        ("lease_until = now() - interval '1 s'", True),
        ("lease_until = now() + interval '1 day'", True),
        ("status = 'indexed'", False),
    ],
)
def test_an_open_build_that_nobody_holds_gets_a_message(forest: Forest, state: str, is_due: bool) -> None:
    forest.configure()
    forest.fill(texts(3))
    with forest.site.pool.connection() as connection:
        values = {"resend": RESEND_AFTER, "longest": LONGEST_WAIT, "id": forest.tree.id}
        connection.execute(f"UPDATE summary_tree SET {state} WHERE id = %(id)s".encode(), values)
    # once it is sent, no other is due
    for expected in (is_due, False):
        assert (forest.tree.id in {message.id for message in trees.take_due_messages(forest.site.pool)}) == expected


def test_a_build_that_got_no_message_yet_is_before_those_whose_messages_are_lost(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(3))
    old = """
    INSERT INTO summary_tree (id, index_id, project_id, status, config, sent_at)
    SELECT gen_random_uuid(), index_id, project_id, status, jsonb_build_object('number', number), now() - interval '1 h'
    FROM summary_tree, generate_series(1, 150) number WHERE id = %s
    """
    forest.site.do(old, forest.tree.id)
    forest.site.do("UPDATE summary_tree SET sent_at = NULL WHERE id = %s", forest.tree.id)
    sent = {message.id for message in trees.take_due_messages(forest.site.pool)}
    forest.site.do("DELETE FROM summary_tree WHERE config ? 'number'")
    assert (len(sent), forest.tree.id in sent) == (100, True)


def test_a_build_is_given_back_by_its_holder_only(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(3))
    owner, held = uuid4(), "SELECT owner, sent_at > now() FROM summary_tree WHERE id = %s"
    assert trees.begin(forest.site.pool, forest.tree.id, owner) is not None
    trees.release(forest.site.pool, forest.tree.id, uuid4(), 30)
    assert forest.site.do(held, forest.tree.id) == [(owner, None)]
    trees.release(forest.site.pool, forest.tree.id, owner, 30)
    assert forest.site.do(held, forest.tree.id) == [(None, True)]
    assert trees.begin(forest.site.pool, forest.tree.id, owner) is not None
    trees.release(forest.site.pool, forest.tree.id, owner)
    assert forest.site.do(held, forest.tree.id) == [(None, None)]


#: The age of a tombstone, whether its delete is confirmed, whether a delete is due, and whether that is the last.
TOMBSTONES = [
    ("1 s", False, True, False),
    ("4 min", True, False, False),
    ("301 s", False, True, True),
    ("301 s", True, True, True),
]


def test_a_summary_is_deleted_at_once_and_again_when_no_write_can_follow(forest: Forest) -> None:
    index = forest.site.index.id
    ids = [uuid4() for _ in TOMBSTONES]
    for id_, (age, is_confirmed, _, _) in zip(ids, TOMBSTONES, strict=True):
        insert = (
            "INSERT INTO tree_tombstone (id, index_id, created_at, deleted_at)"
            " VALUES (%s, %s, now() - %s::interval, CASE WHEN %s THEN now() END)"
        )
        forest.site.do(insert, id_, index, age, is_confirmed)

    def due() -> list[trees.TreeTombstones]:
        return [each for each in trees.due_tombstones(forest.site.pool, 10) if each.index_id == index]

    (found,) = due()
    assert set(found.ids) == {id_ for id_, row in zip(ids, TOMBSTONES, strict=True) if row[2]}
    assert set(found.final) == {id_ for id_, row in zip(ids, TOMBSTONES, strict=True) if row[3]}
    trees.confirm_deleted(forest.site.pool, found)
    assert due() == []
    left = "SELECT id FROM tree_tombstone WHERE index_id = %s AND deleted_at IS NOT NULL"
    assert {id_ for (id_,) in forest.site.do(left, index)} == set(ids[:2])
    forest.site.do("UPDATE tree_tombstone SET created_at = now() - interval '6 min' WHERE index_id = %s", index)
    forest.site.do("UPDATE search_index SET deleted_at = now() WHERE id = %s", index)
    # the namespace goes as a whole
    assert due() == []


def test_the_vectors_of_summaries_go_with_their_index(forest: Forest, resources: Resources) -> None:
    forest.configure()
    forest.fill(texts(9))
    forest.build()
    index = forest.site.index
    store, name = resources.store_of(index), index.namespace + tools.TREE
    assert store.ids(name, None, 10)
    tools.delete(forest.site.pool, forest.site.tool)
    deletions.purge_indexes(resources, limit=1000)
    assert store.ids(name, None, 10) == []


class Failing(Counting):
    """Fails for the reasons of `reasons` one after another; None is a summary."""

    def summarise(self, texts: Sequence[str], check: Check) -> SummaryResult:
        found = super().summarise(texts, check)
        reason = REASONS[(len(self.asked) - 1) % len(REASONS)]
        return SummaryResult(None, reason) if reason else found


REASONS: list[str | None] = ["empty", "empty", "refused", "empty", "empty", None]


def test_clusters_that_fail_are_left_out_and_counted(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(60))
    assert build_slice(forest.run(forest.begin(), Failing()), 600)
    skipped = forest.tree.skipped
    assert set(skipped) == {"empty", "refused"}
    assert skipped["empty"] > skipped["refused"]
    forest.prove()


def test_three_failures_of_one_kind_in_a_row_end_the_build(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.REASONS", ["empty"])
    forest.configure()
    forest.fill(texts(60))
    build, failing = forest.begin(), Failing()
    with pytest.raises(LlmFailed, match="empty"):
        build_slice(forest.run(build, failing), 600)
    assert len(failing.asked) == 3
    trees.fail(forest.site.pool, build.id, LlmFailed("3 clusters in a row"))
    assert forest.tree.error_code == "llm_failed"
