"""The context of every step of a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker.embed import Embedder
from worker.embed.rate_limit import RateBudget
from worker.index.lease import Lease
from worker.state.index.tools import TREE, Index
from worker.state.pool import Pool
from worker.state.tree.trees import TreeBuild
from worker.tokens.tokenizers import Tokenizer
from worker.tree.summaries import Summariser
from worker.vectors import VectorStore


@dataclass(frozen=True, slots=True)
class TreeRun:
    """A build with its resources. `yields` returns whether to let other work go first."""

    build: TreeBuild
    index: Index
    pool: Pool
    lease: Lease
    store: VectorStore
    embedder: Embedder
    tokenizer: Tokenizer
    budget: RateBudget | None
    concurrency: int
    summariser: Summariser
    yields: Callable[[], bool]

    @property
    def namespace(self) -> str:
        """The namespace of the summaries."""
        return self.index.namespace + TREE
