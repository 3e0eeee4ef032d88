"""Tells texts that make a server fail from a server that is down, so that one text does not hold up all others.

Some servers answer 500 to a text that they cannot handle, such as one whose vector is not a number. Others close the
connection, or compute for longer than the time-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable, LlmUnavailable
from worker.embed import Embedder, Vectors, WrappedEmbedder, retry

#: A text that every server can handle.
HARMLESS_TEXT = "word"


class FaultFindingEmbedder(WrappedEmbedder):
    """Wraps `embedder`. It refuses texts at which the server fails while it answers a harmless text.

    `check` may raise before each further request.
    """

    def __init__(self, embedder: Embedder, check: Callable[[], None], clock: retry.TimeSource | None = None) -> None:
        super().__init__(embedder)
        self._check, self._clock = check, clock or retry.TimeSource()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. Sends the texts again after each fault that is theirs."""
        faults = 0
        while True:
            began = self._clock.now()
            try:
                return self._embedder.embed(texts)
            except EmbeddingUnavailable as error:
                seconds = self._clock.now() - began
                if retry.is_too_large(error, len(texts), seconds) or not self._is_of_text(error, seconds):
                    raise
                faults += 1
                if faults >= retry.faults_to_refuse(error, seconds):
                    what = f"{retry.fault(error)}, {faults} times in a row"
                    raise EmbeddingRefused(f"{self.profile.model} answers other texts, and {what}.") from error
            self._clock.pause(retry.FAULT_PAUSE_SECONDS)
            self._check()

    def _is_of_text(self, error: EmbeddingUnavailable, seconds: float) -> bool:
        return is_fault_of_text(error, seconds, self._answers_harmless, self._clock.now)

    def _answers_harmless(self) -> bool:
        self._check()
        try:
            self._embedder.embed([HARMLESS_TEXT])
        except EmbeddingError:
            return False
        return True


def is_fault_of_text(
    error: EmbeddingUnavailable | LlmUnavailable,
    seconds: float,
    answers_harmless: Callable[[], bool],
    now: Callable[[], float],
) -> bool:
    """Whether a text made its server fail after `seconds`: the server answers a harmless text just after."""
    if not retry.may_be_fault_of_text(error):
        return False
    longest = max(retry.SOON_SECONDS, retry.SOON_SHARE * seconds) if error.was_taken else math.inf
    for _ in range(retry.HARMLESS_TRIES):
        began = now()
        if not answers_harmless():
            return False
        if now() - began <= longest:
            return True
    return False
