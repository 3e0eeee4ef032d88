"""Which summaries of a tree are shown to who may read only some files: those of nothing but texts of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from uuid import UUID, uuid4

import pytest

from api.search.tree.shown_part import shown_part
from tests.integration.steps.test_tree_views import NodeRow, Planted, plant
from worker.resources import Resources
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import MetadataState
from worker.state.tree import views
from worker.state.tree.trees import Tree


@pytest.fixture
def planted(resources: Resources) -> Planted:
    return plant(resources, Random(59))


def files_of(planted: Planted) -> dict[str, UUID]:
    rows = planted.site.do("SELECT path, id FROM search_index_file WHERE index_id = %s", planted.tree.index_id)
    return dict(rows)


def readable(planted: Planted, paths: Sequence[str]) -> set[str]:
    """The live summaries of nothing but live texts of files at these paths."""
    texts = {chunk.hash for chunk in planted.live_chunks if chunk.path in paths}
    nodes = {node.key: node for node in planted.of_tree if node.live}

    def is_readable(key: str) -> bool:
        return all(map(is_readable, nodes[key].children)) if key in nodes else key in texts

    return {key for key in nodes if is_readable(key)}


def listed(planted: Planted, shown: views.ShownPart) -> set[UUID]:
    page = views.page(planted.site.pool, planted.tree, level=None, parent=None, shown=shown, after=None, limit=100)
    return {node.id for node in page}


@pytest.mark.parametrize("seed", range(10))
def test_a_summary_is_shown_to_who_may_read_all_below_it(resources: Resources, seed: int) -> None:
    random = Random(seed)
    planted = plant(resources, random)
    files = files_of(planted)
    for number in range(len(files) + 1):
        paths = random.sample(sorted(files), number)
        shown = shown_part(planted.site.pool, planted.tree, frozenset(files[path] for path in paths))
        expected = readable(planted, paths)
        assert set(shown.readable or ()) == expected
        assert listed(planted, shown) == {node.id for node in planted.shown if node.key in expected}
    assert shown_part(planted.site.pool, planted.tree, None) == views.ALL


def test_a_summary_that_comes_meanwhile_is_hidden(planted: Planted) -> None:
    files = frozenset(files_of(planted).values())
    shown = shown_part(planted.site.pool, planted.tree, files)
    before = listed(planted, shown)
    child = planted.live_chunks[0].hash
    late = NodeRow(uuid4(), planted.tree.id, 1, "late", [child], live=True, text="late")
    planted.site.do(
        "INSERT INTO tree_node (id, tree_id, level, slot, key, children, live, text)"
        " VALUES (%s, %s, 1, 0, %s, %s, %s, %s)",
        *(late.id, late.tree_id, late.key, late.children, late.live, late.text),
    )
    assert listed(planted, shown) == before
    tree = replace(planted.tree, built_at=datetime.now(UTC))
    assert listed(planted, shown_part(planted.site.pool, tree, files)) == before | {late.id}


def test_it_is_looked_up_again_once_anything_changes(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, tree, files = planted.site.pool, planted.tree, frozenset(files_of(planted).values())
    at_rest, looked_up = MetadataState(1, uuid4(), datetime.now(UTC)), list[int]()
    states = [at_rest]
    look_up = views.readable_summaries

    def counted(pool: Pool, tree: Tree, files: Sequence[UUID]) -> list[str]:
        looked_up.append(len(files))
        return look_up(pool, tree, files)

    monkeypatch.setattr(metadata, "state", lambda *_: states[-1])
    monkeypatch.setattr(views, "readable_summaries", counted)

    def lookups(tree: Tree = tree, files: frozenset[UUID] = files) -> int:
        looked_up.clear()
        for _ in range(3):
            shown_part(pool, tree, files)
        return len(looked_up)

    assert lookups() == 1
    assert lookups() == 0
    assert lookups(files=frozenset([*files][1:])) == 1
    assert lookups(replace(tree, built_at=datetime.now(UTC))) == 1
    for changed in (replace(at_rest, version=2), replace(at_rest, task_id=uuid4())):
        states.append(changed)
        assert lookups() == 1
    # files may change at any time
    states.append(replace(at_rest, finished_at=None))
    assert lookups() == 3
