"""What the rows of a build and of its nodes say after each step; directly on the rows, beside those of other trees."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.indexers import Build, Subject, summary_tree
from schemas.content.document import text_hash
from schemas.errors import StoreUnavailable
from schemas.tool import ToolConfig
from tests.integration.steps.forest import Forest, texts
from tests.integration.steps.site import Site, refused
from worker.state.tree import build_rows, trees, views
from worker.state.tree.trees import TreeBuild
from worker.upkeep import tree_upkeep

BOTH = (False, True)
#: The chunks of a folder of one text in each file.
TEXTS = """
SELECT c.id, c.content_hash, c.file_id, f.path FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.index_id = %s ORDER BY f.path
"""


@pytest.fixture
def build(forest: Forest) -> TreeBuild:
    """A build that has begun, of a tree over three texts."""
    forest.configure()
    forest.fill(texts(3))
    return forest.begin()


def set_tree(forest: Forest, **values: object) -> None:
    """Set columns of the tree."""
    columns = ", ".join(f"{name} = %s" for name in values)
    forest.site.do(f"UPDATE summary_tree SET {columns} WHERE id = %s", *values.values(), forest.tree.id)


def tree_row(forest: Forest, columns: str) -> tuple[Any, ...]:
    return tuple(forest.site.do(f"SELECT {columns} FROM summary_tree WHERE id = %s", forest.tree.id)[0])


def add_node(forest: Forest, tree_id: UUID, **values: object) -> UUID:
    id_ = uuid4()
    row = {"id": id_, "tree_id": tree_id, "level": 1, "slot": 0, "key": id_.hex, "children": [], **values}
    marks = ", ".join(["%s"] * len(row))
    forest.site.do(f"INSERT INTO tree_node ({', '.join(row)}) VALUES ({marks})", *row.values())
    return id_


def add_tree(forest: Forest) -> UUID:
    """Another tree over the same index."""
    id_ = uuid4()
    insert = "INSERT INTO summary_tree (id, index_id, project_id, config) VALUES (%s, %s, %s, '{\"max_layers\": 1}')"
    forest.site.do(insert, id_, forest.site.index.id, forest.site.project)
    return id_


def node_ids(forest: Forest, where: str, *values: object) -> set[UUID]:
    return {id_ for (id_,) in forest.site.do(f"SELECT id FROM tree_node WHERE {where}", *values)}


# --- the build


@pytest.mark.parametrize(("more", "expected"), [(2, 10), (7, 10), (8, 11)])
def test_a_step_expects_more_summaries_but_never_fewer(
    forest: Forest, build: TreeBuild, more: int, expected: int
) -> None:
    set_tree(forest, done_summaries=3, expected_summaries=10, deaths=2, faults=2, warning="It waits.")
    with forest.site.pool.connection() as connection:
        trees.advance(connection, build, "summarise", 1, more)
    assert tree_row(forest, "expected_summaries, deaths, faults, warning") == (expected, 0, 0, None)


def test_failures_of_one_kind_in_a_row_are_counted(forest: Forest, build: TreeBuild) -> None:
    node = add_node(forest, build.id)
    counted = []
    for reason in ("a", "a", "b", "b", "b", None, "b"):
        set_tree(forest, deaths=2, faults=2, warning="It waits.")
        text = None if reason else "text"
        counted.append(build_rows.keep(forest.site.pool, build, node, text, text, reason))
        assert tree_row(forest, "deaths, faults, warning") == (0, 0, None)
    assert counted == [1, 2, 1, 2, 3, 0, 1]
    assert tree_row(forest, "done_summaries") == (7,)


def test_a_build_that_is_taken_over_began_when_it_first_did(forest: Forest, build: TreeBuild) -> None:
    forest.site.do("UPDATE summary_tree SET started_at = now() - interval '1 h' WHERE id = %s", build.id)
    forest.expire()
    forest.begin()
    assert tree_row(forest, "started_at < now() - interval '59 min'") == (True,)


@pytest.mark.parametrize(
    ("change", "is_over"),
    [("epoch = epoch", False), ("epoch = epoch + 1", True), ("status = 'pending'", True), ("status = 'error'", True)],
)
def test_a_build_writes_only_while_it_is_the_one_that_runs(
    forest: Forest, build: TreeBuild, change: str, is_over: bool
) -> None:
    forest.site.do(f"UPDATE summary_tree SET {change} WHERE id = %s", build.id)
    assert refused(lambda: build_rows.note_stored(forest.site.pool, build, [])) == is_over


def test_a_request_joins_the_build_until_its_texts_are_fixed(forest: Forest, build: TreeBuild) -> None:
    for stage, is_full, rerun_full, full in product(("leaves", "cluster"), BOTH, BOTH, BOTH):
        set_tree(forest, status="indexing", stage=stage, is_full=is_full, rerun=False, rerun_full=rerun_full)
        trees.request(forest.site.pool, build.id, full=full)
        joins = stage == "leaves"
        expected = (False, rerun_full, is_full or full) if joins else (True, rerun_full or full, is_full)
        assert tree_row(forest, "rerun, rerun_full, is_full") == expected
        assert trees.cancel(forest.site.pool, build.id)
        if joins:
            assert tree_row(forest, "status, is_full") == ("cancelled", expected[2])
        else:
            assert tree_row(forest, "status, is_full, rerun, rerun_full") == ("pending", expected[1], False, False)


def test_a_build_that_is_asked_for_counts_no_failures_of_the_one_before(forest: Forest, build: TreeBuild) -> None:
    trees.cancel(forest.site.pool, build.id)
    set_tree(forest, status="error", failures=2, failure_reason="empty", faults=2, deaths=2, error="No.", tokens_in=9)
    trees.request(forest.site.pool, build.id, full=False)
    columns = "status, failures, failure_reason, faults, deaths, error, tokens_in"
    assert tree_row(forest, columns) == ("pending", 0, None, 0, 0, None, 0)


@pytest.mark.parametrize(
    ("what", "expected"), [("due", ("indexed", False)), ("again", ("pending", False)), ("full", ("pending", True))]
)
def test_a_tree_that_is_up_to_date_is_built_again_where_that_is_asked_for(
    forest: Forest, build: TreeBuild, what: Build, expected: tuple[str, bool]
) -> None:
    site = forest.site
    set_tree(forest, status="indexed", is_full=False, index_task_id=site.task)
    summary_tree.build(site.resources, Subject(site.project, site.wanted().source, ToolConfig(), site.tool), what)
    assert tree_row(forest, "status, is_full") == expected


def test_a_message_for_a_build_shows_how_far_the_build_is(
    forest: Forest, build: TreeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[UUID, str] = {}

    def record(_name: str, tree_id: UUID, *, shown: str, **_: object) -> None:
        sent[tree_id] = shown

    forest.expire()
    set_tree(forest, done_summaries=3, expected_summaries=10)
    monkeypatch.setattr(tree_upkeep, "crowded", lambda _: False)
    monkeypatch.setattr(tree_upkeep, "send", record)
    tree_upkeep.send_messages(forest.site.pool)
    assert sent[build.id] == f"3 of 10 summaries, index {build.index_id}, tree {build.id}"


@pytest.mark.parametrize(
    ("was_built", "changed", "is_new"), [(False, False, True), (True, False, False), (True, True, True)]
)
def test_a_build_that_changed_nothing_keeps_the_time_of_the_tree(
    forest: Forest, build: TreeBuild, was_built: bool, changed: bool, is_new: bool
) -> None:
    before = "now() - interval '1 h'" if was_built else "NULL"
    forest.site.do(f"UPDATE summary_tree SET built_at = {before} WHERE id = %s", build.id)
    other = add_tree(forest)
    for live, reason, tree_id in ((True, "a", build.id), (True, "a", build.id), (True, "b", build.id),
        (False, "b", build.id), (True, None, build.id), (True, "a", other)):  # fmt: skip
        add_node(forest, tree_id, live=live, skip_reason=reason)
    with forest.site.pool.connection() as connection:
        trees.complete(connection, build, changed=changed)
    columns = "status, skipped, built_at > now() - interval '1 min', owner"
    assert tree_row(forest, columns) == ("indexed", {"a": 2, "b": 1}, is_new, None)


@pytest.mark.parametrize("how", ["cancelled", "error"])
def test_a_build_that_ends_early_leaves_the_tree_that_answers_and_does_not_start_again(
    forest: Forest, build: TreeBuild, how: str
) -> None:
    other = add_tree(forest)
    made = {
        (tree_id, building, live): add_node(forest, tree_id, building=building, live=live)
        for tree_id, building, live in product((build.id, other), BOTH, BOTH)
    }
    forest.site.do("DELETE FROM tree_leaf WHERE tree_id IN (%s, %s)", build.id, other)
    for tree_id, building, live in made:
        leaf = "INSERT INTO tree_leaf (tree_id, hash, building, live) VALUES (%s, %s, %s, %s)"
        forest.site.do(leaf, tree_id, f"{building} {live}", building, live)
    if how == "error":
        trees.fail(forest.site.pool, build.id, StoreUnavailable("The store is away."))
    else:
        assert trees.cancel(forest.site.pool, build.id)
    gone = {id_ for (tree_id, _, live), id_ in made.items() if tree_id == build.id and not live}
    assert node_ids(forest, "tree_id IN (%s, %s)", build.id, other) == {*made.values()} - gone
    buried = forest.site.do("SELECT id FROM tree_tombstone WHERE index_id = %s", forest.site.index.id)
    assert {id_ for (id_,) in buried} == gone
    leaves = "SELECT hash, building FROM tree_leaf WHERE tree_id = %s ORDER BY hash"
    assert forest.site.do(leaves, build.id) == [("False True", True), ("True True", True)]
    others = [("False False", False), ("False True", False), ("True False", True), ("True True", True)]
    assert forest.site.do(leaves, other) == others
    trees.reconcile(forest.site.pool)
    assert tree_row(forest, "status, owner, lease_until") == (how, None, None)


def test_a_run_that_ended_well_starts_a_build_where_none_is_open(forest: Forest, build: TreeBuild) -> None:
    index_id = forest.site.index.id
    earlier, runs = uuid4(), ("pending", "indexing", "ready", "error", "cancelled")
    insert = (
        "INSERT INTO search_index_task (id, tool_id, index_id, kind, status, created_at)"
        " VALUES (%s, %s, %s, 'create', 'ready', now() - interval '1 day')"
    )
    forest.site.do(insert, earlier, forest.site.tool, index_id)
    for status, run in product(("none", "pending", "indexing", "indexed", "error", "cancelled"), runs):
        before = (status, "cluster", build.epoch)
        set_tree(forest, status=status, index_task_id=None, stage="cluster", epoch=build.epoch)
        # the one before ended otherwise
        for task, ended in ((forest.site.task, run), (earlier, "error" if run == "ready" else "ready")):
            forest.site.do("UPDATE search_index_task SET status = %s WHERE id = %s", ended, task)
        trees.reconcile(forest.site.pool, uuid4())
        assert tree_row(forest, "status, stage, epoch") == before
        trees.reconcile(forest.site.pool, index_id)
        is_due = run == "ready" and status not in {"pending", "indexing"}
        expected = ("pending", "leaves", build.epoch + 1) if is_due else before
        assert tree_row(forest, "status, stage, epoch") == expected, (status, run)


def test_a_tree_that_another_tool_wants_is_not_taken_over(forest: Forest, build: TreeBuild) -> None:
    other = Forest(Site(forest.site.resources, forest.site.folder, project=forest.site.project))
    other.configure()
    assert other.tree.id == build.id
    forest.configure(max_layers=1)
    assert (other.tree.id, forest.tree.id == build.id) == (build.id, False)
    # once nobody wants it any more, it is
    other.configure(max_layers=2)
    assert (other.tree.id, other.tree.config.max_layers) == (build.id, 2)


@pytest.mark.parametrize("status", ["pending", "indexing", "indexed", "error"])
def test_vectors_that_the_store_lost_are_written_by_the_open_build_or_a_new_one(
    forest: Forest, build: TreeBuild, status: str
) -> None:
    lost, other = (add_node(forest, build.id, stored=True) for _ in range(2))
    set_tree(forest, status=status, stage="cluster")
    views.rewrite(forest.site.pool, build.index_id, [lost])
    assert node_ids(forest, "id IN (%s, %s) AND stored", lost, other) == {other}
    is_open = status in {"pending", "indexing"}
    expected = (status, "cluster", False, build.epoch) if is_open else ("pending", "leaves", True, build.epoch + 1)
    assert tree_row(forest, "status, stage, is_full, epoch") == expected


# --- its leaves and nodes


def test_the_leaves_of_a_build_are_live_texts_with_a_vector(forest: Forest, build: TreeBuild) -> None:
    site = forest.site
    known = site.do(TEXTS, site.index.id)
    added = {}
    for live, embedded in product(BOTH, BOTH):
        hash_ = f"{live} {embedded}"
        added[hash_] = site.copy_row("chunk", known[0][0], content_hash=hash_, live=live, embedded=embedded)
    with site.pool.connection() as connection:
        assert build_rows.capture_leaves(connection, build) == (4, 4)
    hashes = {hash_ for _, hash_, *_ in known}

    def leaves() -> set[str]:
        return {leaf.hash for leaf in build_rows.leaves(site.pool, build)}

    assert leaves() == hashes | {"True True"}
    # one that is gone since then, or lost its vector
    for change in ("live = false", "live = true, embedded = false"):
        site.do(f"UPDATE chunk SET {change} WHERE id = %s", added["True True"])
        assert leaves() == hashes


def test_a_leaf_without_its_vector_has_the_text_that_was_embedded(forest: Forest, build: TreeBuild) -> None:
    site = forest.site
    (one, *_), (other, *_), *_ = site.do(TEXTS, site.index.id)
    expected = {text_hash(text): text for text in ("Guide > Start\n\ntext", "text")}
    change = "UPDATE chunk SET context = %s, chunk_text = 'text', content_hash = %s WHERE id = %s"
    for chunk, context, hash_ in zip((one, other), ("Guide > Start", ""), expected, strict=True):
        site.do(change, context, hash_, chunk)
    assert build_rows.leaf_inputs(site.pool, [one, other]) == expected


def test_a_text_in_several_files_is_the_leaf_of_the_first(forest: Forest, build: TreeBuild) -> None:
    site = forest.site
    (_, _, file, path), *_, (last, hash_, *_) = site.do(TEXTS, site.index.id)
    twins = [site.copy_row("chunk", last, file_id=str(file), chunk_index=place) for place in (9, 7, 8)]
    with site.pool.connection() as connection:
        build_rows.capture_leaves(connection, build)
    found = {leaf.hash: (leaf.chunk_id, leaf.path) for leaf in build_rows.leaves(site.pool, build)}
    assert found[hash_] == (twins[1], path)


def test_what_a_build_has_left_to_do_comes_by_slot(forest: Forest, build: TreeBuild) -> None:
    other, random = add_tree(forest), Random(1)
    states = [*product((build.id, other), (1, 2), BOTH, (None, "text"), (None, "reason"), BOTH)] * 2
    random.shuffle(states)
    made = []
    for tree_id, level, building, text, reason, stored in states:
        values = {"level": level, "building": building, "text": text, "skip_reason": reason, "stored": stored}
        slot = random.randint(0, 3)
        id_ = add_node(forest, tree_id, slot=slot, text_hash=text, **values)
        if tree_id == build.id and level == 1 and building:
            made.append((slot, id_.hex, id_, text, reason, stored))
    made.sort()
    open_ = [id_ for *_, id_, text, reason, _ in made if not text and not reason]
    unstored = [id_ for *_, id_, text, _, stored in made if text and not stored]
    pool = forest.site.pool
    for limit in (1, 3, 100):
        assert [each.id for each in build_rows.list_unsummarised(pool, build, 1, limit)] == open_[:limit]
        assert [each.id for each in build_rows.list_unstored(pool, build, 1, limit)] == unstored[:limit]
    assert [each.id for each in build_rows.nodes(pool, build, 1)] == [id_ for *_, id_, _, _, stored in made if stored]
    with pool.connection() as connection:
        assert build_rows.count_unsummarised(connection, build, 1) == len(open_)
    # of which the provider refuses one
    build_rows.note_stored(pool, build, unstored[1:], unstored[:1])
    assert build_rows.list_unstored(pool, build, 1, 100) == []
    assert node_ids(forest, "id = %s AND text IS NULL AND text_hash IS NULL", unstored[0]) == {unstored[0]}
    assert node_ids(forest, "id = %s AND skip_reason = 'not_embedded' AND NOT stored", unstored[0]) == {unstored[0]}


def test_a_summary_is_paid_for_once_by_each_project(forest: Forest, build: TreeBuild) -> None:
    pool, others = forest.site.pool, f"{forest.site.project}-other"
    rows = forest.site.do("SELECT content_hash, tokens_estimate FROM chunk WHERE index_id = %s", forest.site.index.id)
    children, tokens = [hash_ for hash_, _ in rows], sum(number for _, number in rows)
    made = product((1, 2), BOTH, (None, "text"), (None, "reason"), (None, others, forest.site.project))
    unpaid = 0
    for level, building, text, reason, project in made:
        values = {"level": level, "building": building, "text": text, "skip_reason": reason, "children": children}
        key = add_node(forest, build.id, **values).hex
        if project:
            cache = "INSERT INTO summary_cache (project_id, key, tree_id, text) VALUES (%s, %s, %s, 'kept')"
            forest.site.do(cache, project, key, build.id)
        unpaid += level == 1 and building and not text and not reason and project != forest.site.project
        assert build_rows.find_summary(pool, build, key) == ("kept" if project == forest.site.project else None)
    with pool.connection() as connection:
        assert build_rows.count_unpaid(connection, build) == (unpaid, unpaid * tokens) == (2, 2 * tokens)
