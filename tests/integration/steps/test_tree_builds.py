"""What a build of a tree keeps, forgets and tries again, and when the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from schemas.errors import EmbeddingRefused
from tests.integration.steps.forest import Counting, Forest, texts
from tests.integration.steps.site import Site
from worker.embed import Vectors, WrappedEmbedder
from worker.resources import Resources
from worker.state.tree import trees
from worker.tree.build import MAX_FAILURES, build_slice
from worker.tree.summaries import Check, SummaryResult

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
