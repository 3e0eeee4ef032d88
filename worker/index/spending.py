"""Keeps a run within its tool's `max_cost_tokens`, over all workers: tokens are reserved before a request is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from schemas.errors import EmbeddingRefused, EmbeddingUnreadable, FoldexError
from schemas.reason import Reason
from worker.embed import Embedder, Vectors, WrappedEmbedder
from worker.state.index import task_notes
from worker.state.pool import Pool


@dataclass(slots=True)
class Spending:
    """The budget of a slice within its task's limit."""

    pool: Pool
    task_id: UUID

    def reserve(self, tokens: Sequence[int]) -> list[int]:
        """Reserve the tokens of all texts, or of none. Returns the positions of the texts that do not fit."""
        left = task_notes.spend(self.pool, self.task_id, sum(tokens))
        if sum(tokens) <= left:
            return []
        unfit = []
        for position, size in enumerate(tokens):
            if size <= left:
                left -= size
            else:
                unfit.append(position)
        return unfit

    def give_back(self, tokens: int) -> None:
        """Return the tokens of a request without an answer to the budget."""
        task_notes.give_back(self.pool, self.task_id, tokens)


class LimitedEmbedder(WrappedEmbedder):
    """Wraps `embedder` and refuses texts that would exceed the limit. The caller may send the others again."""

    def __init__(self, embedder: Embedder, spending: Spending, tokens: Mapping[str, int]) -> None:
        super().__init__(embedder)
        self._spending, self._tokens = spending, tokens

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        tokens = [self._tokens[text] for text in texts]
        unfit = self._spending.reserve(tokens)
        if unfit:
            raise EmbeddingRefused(Reason.COST_LIMIT.remedy, indices=unfit, reason=Reason.COST_LIMIT)
        try:
            return self._embedder.embed(texts)
        except EmbeddingUnreadable:
            # the provider has answered and counts the tokens
            raise
        except FoldexError:
            self._spending.give_back(sum(tokens))
            raise
