"""The measured speed of an embedder in this process."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

#: Tokens after which an older measurement counts half.
HALF_LIFE_TOKENS = 1 << 17


@dataclass(slots=True)
class EmbeddingPace:
    """The recent speed of one embedder in this process. Thread-safe."""

    _tokens: float = 0.0
    _seconds: float = 0.0
    _request_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_known(self) -> bool:
        """Whether there was an answer, and no failure since."""
        return self._tokens > 0

    def seconds(self, tokens: int) -> float:
        """Return the expected seconds for this many tokens: at least those of one request; inf if unknown."""
        if not tokens:
            return 0.0
        with self._lock:
            return max(self._request_seconds, tokens * self._seconds / self._tokens) if self._tokens else math.inf

    def note_answer(self, tokens: int, seconds: float, *, first: float) -> None:
        """Note the seconds that texts took, and those of their `first` request."""
        with self._lock:
            weight = 0.5 ** (tokens / HALF_LIFE_TOKENS)
            self._tokens, self._seconds = weight * self._tokens + tokens, weight * self._seconds + seconds
            self._request_seconds = first

    def note_failure(self) -> None:
        """Forget the speed: the embedder is away, hangs, or asks to wait."""
        with self._lock:
            self._tokens, self._seconds, self._request_seconds = 0.0, 0.0, 0.0


@dataclass(slots=True)
class Stopwatch:
    """Measures the seconds from the beginning to the first and to the last answer, which other threads note."""

    first: float = math.inf
    last: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def note(self) -> None:
        """Note an answer."""
        now = time.monotonic() - self._began
        self.first, self.last = min(self.first, now), max(self.last, now)
