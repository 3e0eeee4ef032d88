"""Builds of summary trees, step by step: real rows and vectors, and no other process."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from api.cli import fsck
from api.http.disconnect import Disconnect
from api.search.tree.answer import answer_by_tree
from schemas.derived import TreeSearch
from schemas.errors import LeaseLost, TooManyLeaves
from schemas.queries.search import Query
from schemas.queries.tree_search import TreeAnswer
from tests.integration.steps.forest import TOPICS, Counting, Forest, texts
from tests.integration.steps.site import Killed, Site
from worker import dispatch
from worker.embed.models import is_local
from worker.index.pipeline import index_files
from worker.resources import Resources
from worker.state.index import embedding_cache, tools
from worker.state.index.embedding_cache import VectorOwner
from worker.state.tree import trees
from worker.tree.build import build_slice
from worker.tree.clusters import Vectors
from worker.tree.fit import clusters
from worker.upkeep import fsck as plain_fsck
from worker.upkeep import tree_fsck
from worker.upkeep.fsck import RepairResult
from worker.upkeep.tree_upkeep import delete_vectors
from worker.vectors import VectorRow


@pytest.fixture(autouse=True)
def fits_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute clusters in this process. Builds do so in a process of their own, as tests of `worker.tree.fit` do."""

    def fitted(vectors: Vectors, method: str, min_size: int, _: Callable[[], None]) -> list[list[int]] | None:
        return clusters(vectors, method, min_size)

    monkeypatch.setattr("worker.tree.clusters._fit", fitted)


@pytest.mark.parametrize(
    ("count", "levels"), [(0, []), (1, [(0, 1)]), (2, [(0, 2)]), (3, [(0, 3), (1, 1)]), (5, [(0, 5), (1, 1)])]
)
@pytest.mark.parametrize("method", ["adjacent", "kmeans", "gmm"])
def test_a_tree_of_few_leaves_has_only_the_levels_that_shrink(
    forest: Forest, method: str, count: int, levels: list[tuple[int, int]]
) -> None:
    forest.configure(cluster_method=method)
    forest.fill(texts(count))
    forest.build()
    assert forest.levels() == levels
    assert forest.tree.status == "indexed"
    assert forest.tree.built_at is not None
    forest.prove()


def test_equal_leaves_count_once(forest: Forest) -> None:
    forest.configure()
    for number in range(5):
        (forest.site.folder / f"{number}.md").write_text("The same text stands in every file of this folder.\n")
    forest.site.list_folder()
    forest.site.finish_all()
    trees.reconcile(forest.site.pool)
    assert forest.build() == []
    assert forest.levels() == [(0, 1)]


def test_a_tree_is_built_only_after_a_run_that_ended_ready(forest: Forest) -> None:
    forest.configure()
    assert forest.tree.status == "none"
    forest.site.cancel()
    trees.reconcile(forest.site.pool)
    assert forest.tree.status == "none"
    forest.site.again()
    assert forest.tree.status == "none"
    forest.site.finish_all()
    trees.start_after_run(forest.site.pool, forest.site.index.id)
    assert forest.tree.status == "pending"


def test_the_end_of_a_run_starts_the_build(forest: Forest) -> None:
    forest.configure()
    forest.site.list_folder()
    run = forest.site.worker()
    index_files(run, forest.site.claim(run))
    assert dispatch.close_if_done(forest.site.pool, forest.site.task, forest.site.index.id)
    assert forest.tree.status == "pending"


def test_a_build_waits_for_tasks_over_its_index(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(9))
    forest.site.start()
    assert trees.begin(forest.site.pool, forest.tree.id, forest.site.tool) is None
    assert forest.tree.id not in {message.id for message in trees.take_due_messages(forest.site.pool)}
    forest.site.cancel()
    assert forest.tree.id in {message.id for message in trees.take_due_messages(forest.site.pool)}


def test_a_kill_between_summaries_pays_for_none_again(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(30))
    left = [4]

    def die() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    dying = Counting(die)
    with pytest.raises(Killed):
        build_slice(forest.run(forest.begin(), dying), 600)
    forest.expire()
    rest = forest.build()
    calls = [*dying.asked, *rest]
    assert len(dying.asked) == 4
    assert len(calls) == len({tuple(call) for call in calls}) == len(forest.nodes())
    forest.prove()


@pytest.mark.parametrize("method", ["adjacent", "kmeans"])
def test_the_same_leaves_give_the_same_tree_for_nothing(forest: Forest, method: str) -> None:
    forest.configure(cluster_method=method)
    forest.fill(texts(45))
    assert forest.build()
    before = forest.nodes()
    trees.request(forest.site.pool, forest.tree.id, full=True)
    assert forest.build() == []
    assert forest.nodes() == before
    forest.prove()


def test_a_new_clustering_takes_no_slot_of_the_one_before(forest: Forest) -> None:
    """Clusters of the next layer are known again by the slots of what they hold."""
    forest.configure(cluster_method="kmeans")
    forest.fill(texts(45))

    def slots() -> dict[str, int]:
        query = "SELECT key, slot FROM tree_node WHERE tree_id = %s AND live AND level = 1"
        return dict(forest.site.do(query, forest.tree.id))

    forest.build()
    before = slots()
    assert min(before.values()) == 0
    for number in range(0, 45, 2):
        forest.write(number, f"{texts(45)[44 - number]} It was corrected.")
    forest.index()
    trees.request(forest.site.pool, forest.tree.id, full=True)
    forest.build()
    new = [slot for key, slot in slots().items() if key not in before]
    assert min(new) > max(before.values())


def test_a_rename_costs_nothing(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    before = forest.nodes()
    (forest.site.folder / "new").mkdir()
    (forest.site.folder / "3.md").rename(forest.site.folder / "new" / "elsewhere.md")
    forest.index()
    assert forest.tree.status == "pending"
    assert forest.build() == []
    assert forest.nodes() == before


@pytest.mark.parametrize("method", ["adjacent", "kmeans"])
def test_an_edit_remakes_only_what_is_above_it(forest: Forest, method: str) -> None:
    forest.configure(cluster_method=method)
    forest.fill(texts(45))
    first = forest.build()
    forest.write(30, f"{texts(45)[30]} It has one more sentence.")
    forest.index()
    assert forest.stale() == 2
    again = forest.build()
    layers = max(level for level, _ in forest.levels())
    # an edit may move its text to another cluster, so two may change in each layer
    assert 1 <= len(again) <= 2 * layers
    assert len(again) < len(first) or method != "adjacent"
    assert forest.stale() == 0
    forest.prove()


def test_an_undone_edit_costs_nothing(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    before = forest.nodes()
    forest.write(3, "Something else entirely is written here now.")
    forest.index()
    assert forest.build()
    forest.write(3, texts(20)[3])
    forest.index()
    assert forest.build() == []
    assert forest.nodes() == before


def test_search_goes_on_over_the_last_complete_tree(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    before = forest.nodes()
    forest.write(3, "Something else entirely is written here now.")
    forest.index()
    run = forest.run(forest.begin(), Counting(lambda: forest_is(forest, before)))
    assert build_slice(run, 600)
    assert forest.nodes() != before


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_summaries_of_an_open_build_hide_none_that_answer(forest: Forest, tree: TreeSearch) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    index = forest.site.index
    store, namespace = (
        forest.site.resources.store_of(index),
        index.namespace + tools.TREE,
    )
    dimensions = index.settings.embedder.dimensions
    live = forest.stored()
    vector = store.vectors(namespace, [min(live)])[min(live)]
    scope, top = str(forest.tree.id), max(level for level, _ in forest.levels())
    rows = [VectorRow(uuid4(), vector, {"scope": scope, "level": top}) for _ in range(200)]
    store.write(namespace, dimensions, upserts=rows)
    # the other rows lie exactly where the query does
    [(text,)] = forest.site.do("SELECT text FROM tree_node WHERE id = %s", min(live))
    query = Query(query=text, tree=tree, expand_to_leaves=False)
    answer = answer_by_tree(forest.site.resources, forest.site.tool, index, query, disconnect=Disconnect())
    assert isinstance(answer, TreeAnswer)
    assert answer.summaries
    assert {each.text for each in answer.summaries} <= {text for _, text in forest.nodes()}


def forest_is(forest: Forest, nodes: set[tuple[str, str]]) -> None:
    assert forest.nodes() == nodes
    assert forest.tree.status == "indexing"


def test_an_edit_during_a_build_is_taken_up_by_the_next(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(12))
    edits = iter([True])

    def edit() -> None:
        if next(edits, False):
            forest.write(11, "Something else entirely is written here now.")
            forest.index()

    assert build_slice(forest.run(forest.begin(), Counting(edit)), 600)
    trees.reconcile(forest.site.pool)
    assert forest.tree.status == "pending"
    forest.build()
    assert forest.stale() == 0
    assert any("Something else" in text for _, text in forest.nodes())
    forest.prove()


def test_cancel_keeps_the_last_tree_and_stops_the_writer(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    before, levels = forest.nodes(), forest.levels()
    for number, text in enumerate(texts(40)):
        forest.write(number, text)
    forest.index()
    build = forest.begin()
    run = forest.run(build, Counting(lambda: cancel_once(forest)))
    with pytest.raises(LeaseLost):
        build_slice(run, 600)
    assert forest.tree.status == "cancelled"
    assert forest.nodes() == before
    assert forest.levels() == levels
    trees.reconcile(forest.site.pool)
    assert forest.tree.status == "cancelled"
    forest.prove()


def cancel_once(forest: Forest) -> None:
    trees.cancel(forest.site.pool, forest.tree.id)


def test_one_worker_builds_at_a_time(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.begin()
    assert trees.begin(forest.site.pool, forest.tree.id, forest.site.tool) is None


def test_a_worker_that_is_taken_over_writes_nothing_after_a_cancel(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    late = forest.run(forest.begin())
    trees.cancel(forest.site.pool, forest.tree.id)
    trees.request(forest.site.pool, forest.tree.id, full=False)
    forest.build()
    with pytest.raises(LeaseLost):
        build_slice(late, 600)
    forest.prove()


def test_too_many_leaves_name_the_remedy(forest: Forest) -> None:
    forest.configure(cluster_method="kmeans", max_leaves=10)
    forest.fill(texts(11))
    with pytest.raises(TooManyLeaves, match="adjacent"):
        forest.build()
    forest.configure(cluster_method="adjacent", max_leaves=10)
    forest.build()
    assert len(forest.levels()) > 1


@pytest.mark.parametrize("method", ["kmeans", "gmm"])
def test_topics_end_in_clusters_of_their_own(forest: Forest, method: str) -> None:
    assert is_local(forest.site.index.settings.embedder.model)
    forest.configure(cluster_method=method)
    forest.fill(texts(48))
    asked = forest.build()
    first = dict(forest.levels())[1]
    assert first >= len(TOPICS)
    for call in asked[:first]:
        assert len({next(n for n, text in TOPICS.items() if text in part) for part in call}) == 1


def test_a_deleted_tree_leaves_nothing(forest: Forest, resources: Resources) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    assert forest.stored()
    (hashes,) = zip(*forest.site.do("SELECT text_hash FROM tree_node WHERE tree_id = %s", forest.tree.id), strict=True)
    cached = "SELECT count(*) FROM embedding_cache WHERE text_hash = ANY (%s) AND project_id = %s"
    raw = [bytes.fromhex(hash_.removeprefix("sha256:")) for hash_ in hashes]
    assert forest.site.do(cached, raw, forest.site.project) == [(len(set(hashes)),)]
    other = f"{forest.site.project}-other"
    copied = "SELECT %s, embedder, text_hash, vector FROM embedding_cache WHERE project_id = %s"
    forest.site.do(f"INSERT INTO embedding_cache {copied}", other, forest.site.project)
    plain = forest.site.vectors()
    forest.configure(enabled=False)
    assert trees.of_tool(forest.site.pool, forest.site.tool) is None
    delete_vectors(resources)
    assert forest.stored() == set()
    assert forest.site.vectors() == plain
    assert forest.site.do(cached, raw, forest.site.project) == [(0,)]
    for table in ("summary_tree", "summary_cache"):
        assert forest.site.do(f"SELECT count(*) FROM {table} WHERE project_id = %s", forest.site.project) == [(0,)]
    assert forest.site.do(cached, raw, other) == [(len(set(hashes)),)]


def test_a_second_tool_with_equal_settings_shares_the_tree(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    other = Forest(Site(forest.site.resources, forest.site.folder, project=forest.site.project))
    other.configure()
    assert other.tree.id == forest.tree.id
    assert other.tree.status == "pending" or other.tree.built_at is not None
    tools.delete(forest.site.pool, other.site.tool)
    trees.reconcile(forest.site.pool)
    assert forest.tree.built_at is not None


def test_a_changed_config_keeps_the_tree_until_the_next_is_complete(forest: Forest) -> None:
    forest.configure()
    forest.fill(texts(40))
    forest.build()
    before = forest.nodes()
    forest.configure(max_layers=1)
    assert forest.tree.status == "pending"
    assert forest.nodes() == before
    assert forest.build() == []
    assert [level for level, _ in forest.levels()] == [0, 1]
    forest.prove()


def test_fsck_compares_summaries_too(forest: Forest, resources: Resources) -> None:
    forest.configure()
    forest.fill(texts(20))
    forest.build()
    index = forest.site.index
    store = resources.store_of(index)
    report = tree_fsck.inspect(resources.pool, store, index)
    assert report is not None
    assert (report.live, report.missing, report.stray) == (len(forest.nodes()), [], [])
    lost, stray = min(forest.stored()), uuid4()
    vector = store.vectors(index.namespace + tools.TREE, [lost])[lost]
    dimensions = index.settings.embedder.dimensions
    store.write(index.namespace + tools.TREE, dimensions, upserts=[VectorRow(stray, vector, {})], deletes=[lost])
    found = tree_fsck.inspect(resources.pool, store, index)
    assert found is not None
    assert (found.missing, found.stray) == ([lost], [stray])
    told, mended = (fsck.check_tree(resources, index, repair=repair) for repair in (False, True))
    assert told is not None
    assert mended is not None
    assert (told.ok, told.drift, told.repaired) == (False, {"missing": 1, "stray": 1}, None)
    assert "1 without a vector; 1 vector without a summary" in next(fsck.lines(told))
    assert (mended.ok, mended.repaired) == (True, RepairResult(deleted=1, lost=1))
    assert forest.build() == []
    again = tree_fsck.inspect(resources.pool, store, index)
    assert again is not None
    assert (again.missing, again.stray) == ([], [])
    # the plain comparison never meets them
    assert sum(len(unknown) for _, unknown in plain_fsck.differences(resources.pool, store, index)) == 0


def test_a_tree_that_is_deleted_during_its_build_leaves_nothing(forest: Forest, resources: Resources) -> None:
    forest.configure()
    forest.fill(texts(30))
    left = [3]

    def delete_later() -> None:
        left[0] -= 1
        if left[0] == 0:
            forest.configure(enabled=False)

    with pytest.raises(LeaseLost):
        build_slice(forest.run(forest.begin(), Counting(delete_later)), 600)
    delete_vectors(resources)
    assert forest.stored() == set()
    assert forest.site.do("SELECT 1 FROM summary_cache WHERE project_id = %s", forest.site.project) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["adjacent", "kmeans"])
def test_a_tree_is_whole_after_each_round_of_random_edits(forest: Forest, method: str, seed: int) -> None:
    """After each round the tree is whole. With `adjacent` it is the one that a new tool would get."""
    chance = random.Random(seed)
    forest.configure(cluster_method=method)
    files = dict(enumerate(texts(24)))
    forest.fill(list(files.values()))
    forest.build()
    for _ in range(4):
        for number in chance.sample(sorted(files), chance.randint(0, 4)):
            if chance.random() < 0.4:
                del files[number]
                (forest.site.folder / f"{number}.md").unlink()
            else:
                files[number] = f"{chance.choice(list(TOPICS.values()))}. Edition {chance.random()}."
                forest.write(number, files[number])
        for _ in range(chance.randint(0, 3)):
            number = max(files) + 1
            files[number] = f"{chance.choice(list(TOPICS.values()))}. A new text {chance.random()}."
            forest.write(number, files[number])
        forest.index()
        if chance.random() < 0.3:
            before = forest.nodes()
            with suppress(LeaseLost):
                build_slice(forest.run(forest.begin(), Counting(lambda: cancel_once(forest))), 600)
            assert forest.tree.status == "indexed" or forest.nodes() == before
            trees.request(forest.site.pool, forest.tree.id, full=False)
        forest.build()
        whole(forest, len(files))
    if method == "adjacent":
        grown = {key for key, _ in forest.nodes()}
        trees.request(forest.site.pool, forest.tree.id, full=True)
        assert forest.build() == []
        assert {key for key, _ in forest.nodes()} == grown


def whole(forest: Forest, leaves: int) -> None:
    """Assert that each node has its children, and that each but the highest has a parent."""
    forest.prove()
    assert forest.stale() == 0
    assert dict(forest.levels()).get(0, 0) == leaves
    rows = forest.site.do("SELECT level, key, children FROM tree_node WHERE tree_id = %s AND live", forest.tree.id)
    hashes = {h for (h,) in forest.site.do("SELECT hash FROM tree_leaf WHERE tree_id = %s AND live", forest.tree.id)}
    assert len(hashes) == leaves
    levels: dict[int, set[str]] = {0: hashes}
    for level, key, _ in rows:
        levels.setdefault(level, set()).add(key)
    for level in range(1, len(levels)):
        children = {child for found, _, of_node in rows if found == level for child in of_node}
        assert children == levels[level - 1]
    waiting = "SELECT 1 FROM tree_node WHERE tree_id = %s AND NOT live"
    assert forest.site.do(waiting, forest.tree.id) == []


@pytest.mark.parametrize("file_stems", [False, True])
@pytest.mark.parametrize("is_noted", [False, True])
def test_a_leaf_without_its_vector_gets_that_of_its_whole_text_or_waits(
    forest: Forest, file_stems: bool, is_noted: bool
) -> None:
    """The build may know that the store lost the vectors, or not. No text is cached under the hash of another."""
    site = Site(forest.site.resources, forest.site.folder, settings={"file_stems": file_stems})
    forest = Forest(site)
    forest.configure()
    for n in range(4):
        (site.folder / f"name{n}.py").write_text(f"def tide_{n}():\n    return 'moon number {n}'\n")
    forest.fill([])
    rows = site.do("SELECT id, content_hash FROM chunk WHERE index_id = %s AND live", site.index.id)
    hashes = [hash_ for _, hash_ in rows]
    owner = VectorOwner(site.project, site.index.settings.embedder)
    before = embedding_cache.lookup(site.pool, owner, hashes)
    dimensions = site.index.settings.embedder.dimensions
    site.resources.store_of(site.index).write(
        site.index.namespace, dimensions, upserts=[], deletes=[id_ for id_, _ in rows]
    )
    site.do("DELETE FROM embedding_cache WHERE project_id = %s", site.project)
    if is_noted:
        site.do("UPDATE chunk SET lost = true WHERE index_id = %s", site.index.id)
    forest.build()
    after = embedding_cache.lookup(site.pool, owner, hashes)
    assert len(after) == (0 if is_noted else 4)
    assert all(float(before[hash_] @ vector) > 0.999 for hash_, vector in after.items())
    assert forest.levels() == ([] if is_noted else [(0, 4), (1, 1)])


@pytest.mark.parametrize("tree", ["collapsed", "tree_traversal"])
def test_a_copy_of_code_under_another_name_is_summarised_and_found_once(forest: Forest, tree: TreeSearch) -> None:
    site = Site(forest.site.resources, forest.site.folder, settings={"file_stems": True})
    forest = Forest(site)
    forest.configure()
    for name in ("lexer", "parser", "reader"):
        (site.folder / f"{name}.py").write_text("def tide():\n    return 'high'\n")
    (site.folder / "moon.py").write_text("def moon():\n    return 'new'\n")
    forest.fill([])
    (asked,) = forest.build()
    assert sorted(text.split("(")[0] for text in asked) == ["def moon", "def tide"]
    query = Query(query="tide high", tree=tree)
    answer = answer_by_tree(site.resources, site.tool, site.index, query, disconnect=Disconnect())
    assert sorted(hit.chunk_text.split("(")[0] for hit in answer.results) == ["def moon", "def tide"]
