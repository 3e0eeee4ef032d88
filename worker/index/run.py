"""What one slice of indexing works with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from worker.embed import Embedder
from worker.embed.rate_limit import RateBudget
from worker.index.lease import Lease
from worker.index.spending import Spending
from worker.machine.disk_space import DiskSpace
from worker.parse import Limits
from worker.sources import Source
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tokens.tokenizers import Tokenizer
from worker.vectors import VectorStore


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Everything one slice of indexing works with; after `embed_seconds` it starts no further request."""

    index: Index
    epoch: int
    source: Source
    tokenizer: Tokenizer
    embedder: Embedder
    store: VectorStore
    pool: Pool
    lease: Lease
    concurrency: int
    limits: Limits
    budget: RateBudget | None = None
    #: None if the tool sets no limit.
    spending: Spending | None = None
    embed_seconds: float = math.inf
    #: The disk on which runs write; None if it is not watched.
    space: DiskSpace | None = None

    @property
    def dimensions(self) -> int:
        """Dimensions of the index's vectors."""
        return self.index.settings.embedder.dimensions
