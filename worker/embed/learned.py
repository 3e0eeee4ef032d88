"""Learns the largest request that a provider accepts from its answers.

A size that was answered is good. The smallest size that was refused is bad. A first refusal makes requests four times
as small, and answers raise them towards the bad size, until the two meet. From then on a request of the bad size is
tried now and then, because the server's limit may have changed. All processes share what one learns
(`worker.embed.fleet`).
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from schemas.errors import EmbeddingRefused, EmbeddingUnreadable, Excess

#: The share of a refused size that is tried next.
DESCENT = 4
#: Answers of the largest allowed size before a size between it and the bad one is tried.
ANSWERS_TO_GROW = 2
#: Answers before the bad size itself is tried; the number doubles with each failed try.
FEWEST_TO_PROBE, MOST_TO_PROBE = 32, 1024
#: Number of texts refused alone for their length before texts of this length are cut unsent. Number of texts noted.
REFUSED_TO_LEARN, MOST_TOO_LONG = 3, 1000
#: Maximum number of failed tries that are counted.
MOST_PROBES = 8
#: Divisor of the good size. It gives the largest gap to the bad size that is not worth a further try.
CLOSE = 16


@dataclass(frozen=True, slots=True)
class Learned:
    """The known limits of a size: the largest `good` one, the smallest `bad` one (0: none), and the failed `probes`."""

    good: int = 0
    bad: int = 0
    probes: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether the good and the bad size are too close for a try in between."""
        return bool(self.bad) and self.bad - self.good <= max(1, self.good // CLOSE)

    def after_refusal(self, size: int, most: int | None = None) -> Learned:
        """Return the limits after a request was refused for its size; `most` is the size that the provider states."""
        if self.is_settled and size == self.bad and most in {None, self.good}:
            return Learned(self.good, self.bad, min(self.probes + 1, MOST_PROBES))
        if most is not None and 0 < most < size:
            return Learned(most, most + 1)
        if self.bad and size >= self.bad:
            return self
        return Learned(self.good if self.good < size else 0, size)

    def after_answer(self, size: int) -> Learned:
        """Return the limits after a request of this size was answered."""
        if size <= self.good:
            return self
        return Learned(size, self.bad if self.bad > size else 0, 0 if size >= self.bad else self.probes)

    def after_excuse(self, size: int) -> Learned:
        """Return the limits once a request of this size turns out to be refused for another reason."""
        return Learned(self.good) if self.bad == size else self


class SizeLimit:
    """The size of the requests that one process sends. Not thread-safe."""

    def __init__(self) -> None:
        self.known = Learned()
        self._limit = 0
        self._answers = 0

    @property
    def is_in_doubt(self) -> bool:
        """Whether a size was refused and none was answered, so that one request at a time must find the limit."""
        return bool(self.known.bad) and not self.known.good

    def of(self, most: int) -> int:
        """Return the largest size to send, at most `most`."""
        return min(most, self._limit) if self.known.bad else most

    def note_refusal(self, size: int, most: int | None = None) -> None:
        """Learn from a request that was refused for its size."""
        self.take(self.known.after_refusal(size, most))
        self._answers = 0

    def note_answer(self, size: int) -> None:
        """Learn from an answer, and allow a larger size after enough answers."""
        self.take(self.known.after_answer(size))
        if not self.known.bad or size < self._limit:
            return
        self._answers += 1
        if self.known.is_settled:
            if self._answers >= min(MOST_TO_PROBE, FEWEST_TO_PROBE << self.known.probes):
                self._limit, self._answers = self.known.bad, 0
        elif self._answers >= ANSWERS_TO_GROW:
            between = (self.known.good + self.known.bad) // 2
            self._limit, self._answers = max(self.known.good + 1, min(2 * self.known.good, between)), 0

    def excuse(self, size: int) -> None:
        """Forget that a size was refused, because the request had another fault."""
        self.take(self.known.after_excuse(size))

    def take(self, known: Learned) -> None:
        """Adopt limits that this or another process learned."""
        if known == self.known:
            return
        was, self.known = self.known, known
        if not known.bad:
            self._limit = 0
        elif known.bad != was.bad or known.probes != was.probes or not self._limit < known.bad:
            self._limit = known.good or max(1, known.bad // DESCENT)
        else:
            self._limit = max(self._limit, known.good)


class RequestSizes:
    """The sizes of the requests that one process sends, in texts and in tokens. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts, self._tokens = SizeLimit(), SizeLimit()
        #: The longest text that was answered, and the texts that were refused alone for their length, in tokens.
        self._longest_answered, self._too_long = 0, list[int]()

    @property
    def is_in_doubt(self) -> bool:
        """Whether one request at a time should find the provider's limit."""
        return self._texts.is_in_doubt or self._tokens.is_in_doubt

    @property
    def is_bounded(self) -> bool:
        """Whether any size is known to be refused."""
        return bool(self._texts.known.bad or self._tokens.known.bad)

    @property
    def shared(self) -> str:
        """The learned limits as text, for other processes."""
        with self._lock:
            sizes = (self._texts.known, self._tokens.known)
            return " ".join(f"{known.good} {known.bad} {known.probes}" for known in sizes)

    def take(self, shared: str) -> None:
        """Adopt limits that another process learned; an empty text changes nothing."""
        if not shared:
            return
        numbers = list(map(int, shared.split()))
        with self._lock:
            self._texts.take(Learned(*numbers[:3]))
            self._tokens.take(Learned(*numbers[3:]))

    def of(self, max_texts: int, max_tokens: int) -> tuple[int, int]:
        """Return the texts and the tokens of the largest request to send."""
        with self._lock:
            return self._texts.of(max_texts), self._tokens.of(max_tokens)

    def note_answer(self, tokens: list[int]) -> None:
        """Learn from an answer to texts with these numbers of tokens."""
        with self._lock:
            self._texts.note_answer(len(tokens))
            self._tokens.note_answer(sum(tokens))
            self._longest_answered = max(self._longest_answered, *tokens)
            if self._too_long and self._longest_answered >= min(self._too_long):
                self._too_long.clear()

    def note_refusal(self, refusal: EmbeddingRefused, tokens: list[int]) -> None:
        """Learn from a refusal of texts with these numbers of tokens.

        Without a stated reason, the size is to blame if no request of that size was answered. Otherwise a text may be.
        """
        texts = len(tokens)
        with self._lock:
            match refusal.excess:
                case Excess.TEXTS:
                    self._texts.note_refusal(texts, refusal.most)
                case Excess.TOKENS:
                    self._tokens.note_refusal(sum(tokens))
                case Excess.LENGTH:
                    self._note_too_long(tokens)
                case Excess.SIZE:
                    self._texts.note_refusal(texts)
                case _:
                    self._learn_from_unexplained(refusal, texts)

    def was_for_size(self, texts: int) -> None:
        """Learn that a request was refused for its size: all its texts were answered in smaller requests."""
        with self._lock:
            self._texts.note_refusal(texts)

    def excuse(self, texts: int) -> None:
        """Forget the refusal of a request of this many texts: one text was the cause."""
        with self._lock:
            self._texts.excuse(texts)

    @property
    def shortest_refused(self) -> float:
        """The token count from which a text would be refused, as enough shorter ones were. Infinite if unknown."""
        with self._lock:
            return min(self._too_long) if len(self._too_long) >= REFUSED_TO_LEARN else math.inf

    def _learn_from_unexplained(self, refusal: EmbeddingRefused, texts: int) -> None:
        vectors = refusal.vectors if isinstance(refusal, EmbeddingUnreadable) else 0
        if 0 < vectors <= texts // 2:
            self._texts.note_refusal(texts, vectors)
        elif texts > max(1, self._texts.known.good) and not isinstance(refusal, EmbeddingUnreadable):
            self._texts.note_refusal(texts)

    def _note_too_long(self, tokens: list[int]) -> None:
        """Note a text that was refused alone, unless one as long was answered: then its words have more tokens."""
        if len(tokens) == 1 and tokens[0] > self._longest_answered and len(self._too_long) < MOST_TOO_LONG:
            self._too_long.append(tokens[0])
