"""The context of one slice of indexing."""

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
    """The context of one slice of indexing. After `embed_seconds` the slice starts no further request."""

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
    #: Whether a store with keywords also gets rows without a vector. Otherwise Postgres finds their words until then.
    words_in_store: bool = True
    #: Bytes of the task's files that remained when the slice began; inf during the listing.
    left_bytes: float = 0.0
    budget: RateBudget | None = None
    #: None if the tool sets no limit.
    spending: Spending | None = None
    embed_seconds: float = math.inf
    #: Seconds after which words no longer wait for vectors; None if none wait.
    patience: float | None = None
    #: Whether the provider may be asked in this slice.
    asks: bool = True
    #: Returns whether work with priority over vectors waits.
    gives_way: Callable[[], bool] = never
    #: Writes words of other tasks during a long request. Returns whether there may be more.
    write_elsewhere: Callable[[], bool] = never
    #: The disk that runs write to; None if it is not watched.
    space: DiskSpace | None = None

    @property
    def is_listed(self) -> bool:
        """Whether all files of the task were listed when the slice began."""
        return self.left_bytes < math.inf

    @property
    def dimensions(self) -> int:
        """Dimensions of the index's vectors."""
        return self.index.settings.embedder.dimensions
