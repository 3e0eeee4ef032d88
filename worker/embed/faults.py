"""Tells texts that make a server fail from a server that is down, so that one text does not hold up all others.

Some servers answer 500 to a text that they cannot handle, such as one whose vector is not a number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable
from worker.embed import Embedder, Vectors, WrappedEmbedder, retry

#: A text that every server can handle.
HARMLESS_TEXT = "word"


class FaultFindingEmbedder(WrappedEmbedder):
    """Wraps `embedder`. It refuses texts to which the server answers 500 while it answers a harmless text.

    `check` may raise before each further request.
    """

    def __init__(
        self, embedder: Embedder, check: Callable[[], None], pause: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(embedder)
        self._check, self._pause = check, pause

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. Sends the texts again after each fault that is theirs."""
        fault: EmbeddingUnavailable | None = None
        for _ in range(retry.FAULTS_TO_REFUSE):
            if fault is not None:
                self._pause(retry.FAULT_PAUSE_SECONDS)
                self._check()
            try:
                return self._embedder.embed(texts)
            except EmbeddingUnavailable as error:
                self._raise_if_down(error)
                fault = error
        raise EmbeddingRefused(
            f"{self.profile.model} answers other texts, and fails at this one with HTTP 500, "
            f"{retry.FAULTS_TO_REFUSE} times in a row."
        ) from fault

    def _raise_if_down(self, error: EmbeddingUnavailable) -> None:
        """Raise the error, unless the text may have made the server fail, and it answers a harmless one."""
        if not retry.may_be_fault_of_text(error):
            raise error
        self._check()
        try:
            self._embedder.embed([HARMLESS_TEXT])
        except EmbeddingError:
            raise error from None
