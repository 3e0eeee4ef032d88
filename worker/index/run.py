"""What one slice of indexing works with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from worker.embed import Embedder
from worker.embed.batching import never
from worker.embed.pace import EmbeddingPace
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
    pace: EmbeddingPace
    #: Whether rows without a vector go to a store that has keywords; else Postgres finds their words until then.
    words_in_store: bool = True
    #: Bytes of the task's files that were left when the slice began; inf while more is being listed.
    left_bytes: float = 0.0
    budget: RateBudget | None = None
    #: None if the tool sets no limit.
    spending: Spending | None = None
    embed_seconds: float = math.inf
    #: Whether the provider may be asked in this slice.
    asks: bool = True
    #: Whether work that comes before vectors waits.
    gives_way: Callable[[], bool] = never
    #: Writes words of other tasks while a request takes long. Says whether there may be more.
    write_elsewhere: Callable[[], bool] = never
    #: The disk on which runs write; None if it is not watched.
    space: DiskSpace | None = None

    @property
    def is_listed(self) -> bool:
        """Whether all files of the task were listed when the slice began."""
        return self.left_bytes < math.inf

    @property
    def dimensions(self) -> int:
        """Dimensions of the index's vectors."""
        return self.index.settings.embedder.dimensions
