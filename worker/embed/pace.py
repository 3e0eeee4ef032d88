"""How fast an embedder answers, as this process measured it."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class EmbeddingPace:
    """How fast the texts of one embedder were answered last, in this process. Thread-safe."""

    _tokens: int = 0
    _seconds: float = math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seconds(self, tokens: int) -> float:
        """How long texts of so many tokens will take. A few take as long as a request."""
        if not tokens:
            return 0.0
        with self._lock:
            return self._seconds * max(1.0, tokens / self._tokens) if self._tokens else math.inf

    def answered(self, tokens: int, seconds: float) -> None:
        """Note how long texts took; fewer than before say something only if they took longer than expected."""
        expected = self.seconds(tokens)
        with self._lock:
            if tokens >= self._tokens or seconds > expected:
                self._tokens, self._seconds = tokens, seconds

    def failed(self) -> None:
        """Forget it: the embedder is away or asks to wait."""
        with self._lock:
            self._tokens, self._seconds = 0, math.inf
