"""Distinguishes texts that make a server fail from a server that is down, so that one text does not delay all others.

Some servers answer 500 to a text that they cannot handle, such as one whose vector is not a number. Others close the
connection, or compute for longer than the time-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, ModelUnavailable
from worker.embed import Embedder, Vectors, WrappedEmbedder, retry
from worker.embed.rate_limit import RateBudget, no_check

#: A text that every server can handle, and its tokens, including the two that mark its ends.
HARMLESS_TEXT, HARMLESS_TOKENS = "word", 3


@dataclass(frozen=True, slots=True)
class FurtherRequests:
    """Preconditions of each further request: `check`, which may raise, and its charge to the budget.

    `budget` is None for a model that costs nothing. `tokens` has the number of tokens by text.
    """

    check: Callable[[], None] = no_check
    budget: RateBudget | None = None
    project: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)

    def permit(self, texts: Sequence[str]) -> None:
        """Wait until these texts may be sent."""
        self.check()
        if self.budget is not None:
            tokens = sum(self.tokens.get(text, HARMLESS_TOKENS) for text in texts)
            self.budget.charge(project=self.project, tokens=tokens, check=self.check)


class FaultFindingEmbedder(WrappedEmbedder):
    """Wraps `embedder` and refuses a text if the server fails at it but answers a harmless text."""

    def __init__(self, embedder: Embedder, further: FurtherRequests, clock: retry.TimeSource | None = None) -> None:
        super().__init__(embedder)
        self._further, self._clock = further, clock or retry.TimeSource()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, as `Embedder` says. Sends the texts again after each fault that they cause."""
        faults = 0
        while True:
            began = self._clock.now()
            try:
                return self._embedder.embed(texts)
            except EmbeddingUnreadable as error:
                if self._seconds_of_harmless() is None:
                    # no answer of this server can be used, so no text is to blame
                    raise EmbeddingUnavailable(error.message) from error
                faults += 1
                if error.answered or faults >= retry.faults_to_refuse(error, len(texts), 0):
                    raise
            except EmbeddingUnavailable as error:
                seconds = self._clock.now() - began
                if retry.is_too_large(error, len(texts), seconds):
                    raise
                if not is_fault_of_text(error, seconds, self._seconds_of_harmless):
                    raise
                faults += 1
                if faults >= retry.faults_to_refuse(error, len(texts), seconds):
                    what = f"{retry.fault(error)}, {faults} times in a row"
                    raise EmbeddingRefused(f"{self.profile.model} answers other texts, and {what}.") from error
            self._clock.pause(retry.FAULT_PAUSE_SECONDS)
            self._further.permit(texts)

    def _seconds_of_harmless(self) -> float | None:
        self._further.permit([HARMLESS_TEXT])
        began = self._clock.now()
        try:
            self._embedder.embed([HARMLESS_TEXT])
        except EmbeddingError:
            return None
        return self._clock.now() - began


def is_fault_of_text(error: ModelUnavailable, seconds: float, seconds_of_harmless: Callable[[], float | None]) -> bool:
    """Return whether a text made its server fail after `seconds`: the server answers a harmless text just after.

    `seconds_of_harmless` sends that text, and returns None if it gets no answer either.
    """
    if not retry.may_be_fault_of_text(error):
        return False
    longest = max(retry.SOON_SECONDS, retry.SOON_SHARE * seconds) if error.was_taken else math.inf
    for _ in range(retry.HARMLESS_TRIES):
        took = seconds_of_harmless()
        if took is None or took <= longest:
            return took is not None
    return False
