"""Trees as readers see them, compared with a plain model: rows in random states, beside those of others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from schemas.summary_tree import RaptorConfig
from tests.contract.test_keywords import FILTERS
from tests.integration.steps.site import Site, listed_site
from worker.resources import Resources
from worker.state.tree import views
from worker.state.tree.trees import Tree

HASHES = [f"sha256:{number:064x}" for number in range(6)]


@dataclass(frozen=True)
class ChunkRow:
    """A chunk of an index."""

    id: UUID
    index_id: UUID
    path: str
    hash: str
    live: bool
    embedded: bool
    tokens: int

    @property
    def text(self) -> str:
        return f"text of {self.hash}"


@dataclass(frozen=True)
class NodeRow:
    """A node of a tree."""

    id: UUID
    tree_id: UUID
    level: int
    key: str
    children: list[str]
    live: bool
    text: str | None

    @property
    def is_shown(self) -> bool:
        return self.live and self.text is not None


@dataclass(frozen=True)
class Planted:
    """Two trees over one index and one over another, and what the first should look like."""

    site: Site
    tree: Tree
    chunks: list[ChunkRow]
    nodes: list[NodeRow]
    leaves: dict[str, bool]
    other_trees: list[UUID]

    @property
    def live_chunks(self) -> list[ChunkRow]:
        return [chunk for chunk in self.chunks if chunk.live and chunk.index_id == self.tree.index_id]

    @property
    def of_tree(self) -> list[NodeRow]:
        return [node for node in self.nodes if node.tree_id == self.tree.id]

    @property
    def shown(self) -> list[NodeRow]:
        return [node for node in self.of_tree if node.is_shown]

    def texts(self) -> dict[str, int]:
        """The texts with a vector, and their tokens."""
        found: dict[str, int] = {}
        for chunk in self.live_chunks:
            if chunk.embedded:
                found[chunk.hash] = max(found.get(chunk.hash, 0), chunk.tokens)
        return found

    def chunk_of(self, hash_: str) -> UUID | None:
        """The chunk that stands for a text."""
        return min((chunk.id for chunk in self.live_chunks if chunk.hash == hash_), default=None)

    def below(self, key: str) -> set[str]:
        """The hashes of leaves below a node."""
        found, todo = set(), [key]
        while todo:
            of_key = [node for node in self.of_tree if node.key == todo[0]]
            found |= set() if of_key else {todo[0]}
            todo = todo[1:] + [child for node in of_key if node.live for child in node.children]
        return found

    def paths(self, keys: set[str]) -> list[str]:
        return sorted({chunk.path for chunk in self.live_chunks if chunk.hash in keys})

    def shown_node(self, node: NodeRow) -> views.ShownNode:
        ids = {each.key: each.id for each in self.shown} | {key: self.chunk_of(key) for key in HASHES}
        children = [id_ for child in node.children if (id_ := ids.get(child))]
        below = self.below(node.key) or {node.key}
        return views.ShownNode(
            node.id, node.level, node.text or "", children, self.parents(node.key), self.paths(below)
        )

    def shown_leaf(self, hash_: str) -> views.ShownNode:
        id_ = self.chunk_of(hash_)
        assert id_ is not None
        return views.ShownNode(id_, 0, f"text of {hash_}", [], self.parents(hash_), self.paths({hash_}))

    def parents(self, key: str) -> list[UUID]:
        return sorted(node.id for node in self.shown if key in node.children)

    def leaf_page(self, keys: list[str]) -> list[views.ShownNode]:
        """Those of the texts that the tree has as leaves and the folder still has."""
        found = [self.shown_leaf(key) for key in keys if self.leaves.get(key) and self.chunk_of(key)]
        return sorted(found, key=lambda leaf: leaf.id)


def plant(resources: Resources, random: Random) -> Planted:
    sites = [listed_site(resources, 2) for _ in range(2)]
    for site in sites:
        site.finish_all()
    site, index_id = sites[0], sites[0].index.id
    chunks = [chunk for each in sites for chunk in add_chunks(each, random)]
    owners = [(site, index_id), (site, index_id), (sites[1], sites[1].index.id)]
    tree_ids = [add_tree(owner, of_index, number) for number, (owner, of_index) in enumerate(owners)]
    nodes = [node for tree_id in tree_ids for node in add_nodes(site, tree_id, random)]
    leaves = [add_leaves(site, tree_id, random) for tree_id in tree_ids]
    given: dict[str, Any] = dict.fromkeys(Tree.__dataclass_fields__)
    given |= {"id": tree_ids[0], "index_id": index_id, "config": RaptorConfig(), "built_at": datetime.now(UTC)}
    return Planted(site, Tree(**given), chunks, nodes, leaves[0], tree_ids[1:])


def add_chunks(site: Site, random: Random) -> list[ChunkRow]:
    """Replace the chunks of a site by some with texts that others have too."""
    index_id, made = site.index.id, []
    files = site.do("SELECT id, path FROM search_index_file WHERE index_id = %s ORDER BY path", index_id)
    ((old,),) = site.do("SELECT array_agg(id) FROM chunk WHERE index_id = %s", index_id)
    for _ in range(14):
        (file_id, path), hash_ = random.choice(files), random.choice(HASHES)
        live, embedded = random.random() < 0.7, random.random() < 0.7
        chunk = ChunkRow(uuid4(), index_id, path, hash_, live, embedded, random.randint(1, 9))
        place = {"id": str(chunk.id), "file_id": str(file_id), "content_hash": hash_, "chunk_text": chunk.text}
        site.copy_row("chunk", old[0], **place, live=live, embedded=embedded, tokens_estimate=chunk.tokens)
        made.append(chunk)
    site.do("DELETE FROM chunk WHERE id = ANY (%s)", old)
    return made


def add_tree(site: Site, index_id: UUID, number: int) -> UUID:
    id_, config = uuid4(), Jsonb({"enabled": True, "max_layers": number + 1})
    insert = "INSERT INTO summary_tree (id, index_id, project_id, config) VALUES (%s, %s, %s, %s)"
    site.do(insert, id_, index_id, site.project, config)
    return id_


def add_nodes(site: Site, tree_id: UUID, random: Random) -> list[NodeRow]:
    made: list[NodeRow] = []
    below = list(HASHES)
    for level in (1, 2):
        keys = [f"{level}.{number}" for number in range(5)]
        for key in keys:
            children = random.sample(below, random.randint(1, 3))
            live, text = random.random() < 0.7, random.choice(["some text", "more text", None])
            made.append(NodeRow(uuid4(), tree_id, level, key, children, live, text))
        below = keys
    for node in made:
        insert = (
            "INSERT INTO tree_node (id, tree_id, level, slot, key, children, live, text)"
            " VALUES (%s, %s, %s, 0, %s, %s, %s, %s)"
        )
        site.do(insert, node.id, tree_id, node.level, node.key, node.children, node.live, node.text)
    return made


def add_leaves(site: Site, tree_id: UUID, random: Random) -> dict[str, bool]:
    """Return the leaves of a tree, and whether they are live."""
    leaves = {key: random.random() < 0.7 for key in random.sample(HASHES, 5)}
    for key, live in leaves.items():
        site.do("INSERT INTO tree_leaf (tree_id, hash, live) VALUES (%s, %s, %s)", tree_id, key, live)
    return leaves


def listed(planted: Planted, limit: int, level: int | None = None, parent: UUID | None = None) -> list[views.ShownNode]:
    """All pages of a list."""
    found: list[views.ShownNode] = []
    for _ in range(len(planted.nodes) + len(HASHES)):
        after = (found[-1].level, found[-1].id) if found else None
        page = views.page(planted.site.pool, planted.tree, level=level, parent=parent, after=after, limit=limit)
        found += page
        if len(page) < limit:
            break
    return found


@pytest.mark.parametrize("seed", range(3))
def test_readers_see_what_is_live_in_their_tree(resources: Resources, seed: int) -> None:
    planted = plant(resources, Random(seed))
    pool, tree, texts = planted.site.pool, planted.tree, planted.texts()
    assert views.count_leaves(pool, tree.index_id) == (len(texts), sum(texts.values()))
    live_leaves = {key for key, live in planted.leaves.items() if live}
    counts = [(level, sum(node.level == level for node in planted.shown)) for level in (1, 2)]
    levels = [(level, count) for level, count in [(0, len(live_leaves)), *counts] if count]
    assert views.count_nodes(pool, tree) == views.TreeShape(levels, len(live_leaves ^ set(texts)))
    assert views.top_level(pool, tree) == max((node.level for node in planted.shown), default=0)
    ids, keys = [node.id for node in planted.nodes], [node.key for node in planted.nodes[::2]]
    shown = {node.id: node.key for node in planted.shown}
    assert {each.id: each.key for each in views.summaries(pool, tree, ids=ids)} == shown
    some = {id_: key for id_, key in shown.items() if key in keys}
    assert {each.id: each.key for each in views.summaries(pool, tree, keys=keys)} == some


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_listed_from_the_top_by_levels_and_below_each_node(resources: Resources, seed: int) -> None:
    planted = plant(resources, Random(seed))
    shown = sorted(planted.shown, key=lambda node: (-node.level, node.id))
    for limit in (1, 2, 100):
        assert listed(planted, limit) == [planted.shown_node(node) for node in shown]
        for level in (1, 2):
            expected = [planted.shown_node(node) for node in shown if node.level == level]
            assert listed(planted, limit, level) == expected
        assert listed(planted, limit, 0) == planted.leaf_page(HASHES)
    for node in planted.nodes:
        expected = [planted.shown_node(each) for each in shown if each.key in node.children]
        if node.level == 1:
            expected = planted.leaf_page(node.children)
        if not node.live or node.tree_id != planted.tree.id:
            expected = []
        assert listed(planted, 2, parent=node.id) == expected, node
        assert listed(planted, 2, node.level - 1, node.id) == expected, node
        assert listed(planted, 2, node.level, node.id) == []


@pytest.mark.parametrize("seed", range(6))
def test_texts_below_a_node_are_reached_through_live_nodes(resources: Resources, seed: int) -> None:
    planted = plant(resources, Random(seed))
    live = [node.key for node in planted.of_tree if node.live]
    below = views.leaves_below(planted.site.pool, planted.tree, live)
    assert {key: {*below.get(key, ())} for key in live} == {key: planted.below(key) for key in live}
    assert [key for key, hashes in below.items() if len(hashes) > len(set(hashes))] == []


@pytest.mark.parametrize("seed", range(3))
def test_a_text_has_the_first_live_chunk_that_passes_the_filters(resources: Resources, seed: int) -> None:
    planted = plant(resources, Random(seed))
    some = {chunk.id for chunk in planted.chunks[::2]}
    planted.site.do("UPDATE chunk SET symbol = 'f' WHERE id = ANY (%s)", [*some])
    for symbols in (["f"], ["g"], None):
        expected: dict[str, UUID] = {}
        for chunk in sorted(planted.live_chunks, key=lambda chunk: (chunk.path, chunk.id)):
            if symbols is None or (chunk.id in some and symbols == ["f"]):
                expected.setdefault(chunk.hash, chunk.id)
        filters = {**dict.fromkeys(FILTERS), "symbols": symbols}
        assert views.passing_chunks(planted.site.pool, planted.tree, HASHES, filters) == expected


def test_fsck_compares_the_nodes_of_all_trees_over_an_index(resources: Resources) -> None:
    planted = plant(resources, Random(1))
    pool, index_id = planted.site.pool, planted.tree.index_id
    buried = uuid4()
    planted.site.do("INSERT INTO tree_tombstone (id, index_id) VALUES (%s, %s)", buried, index_id)
    trees = {planted.tree.id, planted.other_trees[0]}
    nodes = [node for node in planted.nodes if node.tree_id in trees]
    live = {node.id for node in nodes if node.is_shown}
    assert views.all_nodes(pool, index_id) == views.AllNodes(live, {buried, *(node.id for node in nodes)})
    planted.site.do("DELETE FROM summary_tree WHERE index_id = %s", index_id)
    assert views.all_nodes(pool, index_id) == views.AllNodes(set(), {buried})
    planted.site.do("DELETE FROM tree_tombstone WHERE id = %s", buried)
    assert views.all_nodes(pool, index_id) is None
