"""A folder with a summary tree, whose builds a test executes step by step, without another process."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from schemas.summary_tree import RaptorConfig
from tests.integration.steps.site import Site, write
from worker.state.index import tool_actions, tools
from worker.state.tree import trees, views
from worker.state.tree.trees import Tree, TreeBuild
from worker.tree.build import build_slice
from worker.tree.lease import TreeLease
from worker.tree.run import TreeRun
from worker.tree.summaries import Check, Extractive, Summariser, SummaryResult

LONG_AGO = 1_000_000_000
TOPICS = {
    "apples": "Apples grow on trees in the orchard, and the harvest of apples begins in autumn with many baskets",
    "engines": "The engine burns fuel in its cylinders, and the pistons of the engine turn a shaft with gears",
    "courts": "A judge in the court hears the lawyers, and the court decides the case by law and evidence",
}


@dataclass
class Counting:
    """`local/extractive` that records what it is asked. `before` runs in front of each summary."""

    before: Callable[[], None] = lambda: None
    asked: list[list[str]] = field(default_factory=list)
    concurrency: int = 1
    identity: str = "counting"

    def afford(self, tokens: int) -> None:
        pass

    def summarise(self, texts: Sequence[str], check: Check) -> SummaryResult:
        self.before()
        self.asked.append(list(texts))
        return Extractive().summarise(texts, check)


@dataclass
class Forest:
    """A tool with a tree over a folder of one short text per file."""

    site: Site
    summariser: Counting = field(default_factory=Counting)
    edits: int = 0

    def configure(self, **config: object) -> None:
        raptor = RaptorConfig.model_validate({"enabled": True, "cluster_method": "adjacent", **config})
        tool_actions.set_derived(self.site.pool, self.site.tool, "raptor", raptor.model_dump(exclude_defaults=True))
        trees.reconcile(self.site.pool)

    def fill(self, texts: Sequence[str]) -> None:
        """Write the texts and run the first task."""
        for number, text in enumerate(texts):
            self.write(number, text)
        self.site.list_folder()
        self.site.finish_all()
        trees.reconcile(self.site.pool)

    def write(self, number: int, text: str) -> None:
        write(self.site.folder, number, text)
        self.edits += 1
        os.utime(self.site.folder / f"{number}.md", (LONG_AGO + self.edits, LONG_AGO + self.edits))

    def index(self) -> None:
        """Index what changed in the folder."""
        self.site.again()
        self.site.finish_all()
        trees.reconcile(self.site.pool)

    @property
    def tree(self) -> Tree:
        found = trees.of_tool(self.site.pool, self.site.tool)
        assert found is not None
        return found

    def begin(self) -> TreeBuild:
        build = trees.begin(self.site.pool, self.tree.id, uuid4())
        assert build is not None
        return build

    def run(self, build: TreeBuild, summariser: Summariser | None = None) -> TreeRun:
        r = self.site.resources
        index = tools.index(r.pool, build.index_id)
        assert index is not None
        lease = TreeLease()
        lease._renewed = math.inf
        settings = index.settings
        return TreeRun(
            build=build,
            index=index,
            pool=r.pool,
            lease=lease,
            store=r.store_of(index),
            embedder=r.embedder(settings.embedder, explicit_dimensions=False),
            tokenizer=r.tokenizer(settings.embedder),
            budget=None,
            concurrency=1,
            summariser=summariser or self.summariser,
            yields=lambda: False,
        )

    def build(self) -> list[list[str]]:
        """Complete the open build. Returns what was summarised."""
        self.summariser.asked.clear()
        assert build_slice(self.run(self.begin()), 600)
        return list(self.summariser.asked)

    def expire(self) -> None:
        """Let the lease run out, as after a kill."""
        self.site.do("UPDATE summary_tree SET lease_until = now() - interval '1 second' WHERE id = %s", self.tree.id)

    def levels(self) -> list[tuple[int, int]]:
        return views.count_nodes(self.site.pool, self.tree).levels

    def stale(self) -> int:
        return views.count_nodes(self.site.pool, self.tree).stale

    def nodes(self) -> set[tuple[str, str]]:
        """Key and text of every summary that answers."""
        query = "SELECT key, text FROM tree_node WHERE tree_id = %s AND live AND text IS NOT NULL"
        return {(key, text) for key, text in self.site.do(query, self.tree.id)}

    def stored(self) -> set[UUID]:
        """Every id in the namespace of summaries."""
        index = self.site.index
        store = self.site.resources.store_of(index)
        return set(store.ids(index.namespace + tools.TREE, None, 100_000))

    def prove(self) -> None:
        """Assert that the store has the vectors of exactly the summaries that answer, and of tombstones."""
        rows = self.site.do("SELECT id FROM tree_node WHERE tree_id = %s AND live AND text IS NOT NULL", self.tree.id)
        live = {id_ for (id_,) in rows}
        dead = {id_ for (id_,) in self.site.do("SELECT id FROM tree_tombstone WHERE index_id = %s", self.site.index.id)}
        assert live <= self.stored() <= live | dead


def texts(count: int) -> list[str]:
    """Distinct texts whose topics follow one another."""
    topics = list(TOPICS.values())
    return [f"{topics[number * 3 // max(count, 1)]}. This is report number {number}." for number in range(count)]
