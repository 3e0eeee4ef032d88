"""Embed many texts in few requests: pack them to a model's limits, run requests concurrently, isolate refused texts."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, FoldexError, SliceOver
from worker.embed import Embedder, Vectors
from worker.embed.rate_limit import PATIENCE, Budget, unchecked

#: Refused requests after which batches are no longer split. This is enough for about twenty bad texts among thousands.
MAX_REFUSALS = 256
#: Share of a request's limits from which it counts as full.
FULL = 0.95
#: Groups that packing keeps open. More would fill groups better but scatter a file's chunks more widely.
_OPEN_GROUPS = 8

Outcome = tuple[list[int], Vectors | EmbeddingRefused]


@dataclass(frozen=True, slots=True)
class Terms:
    """When requests may start: `check` raises once no more are wanted; the slice ends after `seconds`.

    `budget` is None for a model that costs nothing. `project` is the project whose share of the budget is used.
    `only_full` leaves out texts that do not fill a request, for a caller that will add more texts.
    """

    budget: Budget | None = None
    project: str = ""
    check: Callable[[], None] = unchecked
    seconds: float = math.inf
    only_full: bool = False


FREE = Terms()


@dataclass(eq=False)
class _Group:
    room: int
    indices: list[int] = field(default_factory=list)


def pack(tokens: Sequence[int], max_inputs: int, max_tokens: int) -> list[list[int]]:
    """Indices of `tokens` in groups of at most `max_inputs` texts and at most `max_tokens` tokens.

    Uses first fit over the last few groups. Neighbours stay together, so files are completed one after another. No two
    groups that were open at the same time would fit in one. A text above `max_tokens` gets its own group; the provider
    decides whether to accept it.
    """
    groups: list[_Group] = []
    filling: deque[_Group] = deque(maxlen=_OPEN_GROUPS)
    for index, size in enumerate(tokens):
        group = next((group for group in filling if group.room >= size), None)
        if group is None:
            group = _Group(max_tokens)
            groups.append(group)
            filling.append(group)
        group.room -= size
        group.indices.append(index)
        if len(group.indices) >= max_inputs:
            filling.remove(group)
    return [group.indices for group in groups]


def embed_all(
    embedder: Embedder, texts: Sequence[str], tokens: Sequence[int], concurrency: int, terms: Terms = FREE
) -> Generator[Outcome, None, None]:
    """Embed the texts with at most `concurrency` requests at a time, and yield each answer as it arrives.

    An outcome is `(indices, vectors)`, row by row, or `(indices, refusal)` for a refused text. A text counts as refused
    if the provider refuses it alone, or in any batch after `MAX_REFUSALS`. Equal texts are sent once and yielded
    together. Unless another error occurs, every index that is sent is yielded exactly once.

    After the first error no further request starts. Requests in flight are already paid for, so their outcomes are
    awaited and yielded before the error is raised. A request that the provider cannot answer at the moment is repeated
    for `PATIENCE` seconds. Raises `SliceOver` when the time is up, but only after at least one answer, so that each
    slice makes progress.

    No request starts while the caller holds an outcome. To stop early, close the iterator, which waits for the requests
    in flight.
    """
    owners = _owners(texts)
    firsts = [indices[0] for indices in owners.values()]
    most = terms.budget.max_request_tokens if terms.budget else None
    limit = min(embedder.max_request_tokens, most or embedder.max_request_tokens)
    batches = pack([tokens[index] for index in firsts], embedder.max_inputs, limit)
    if terms.only_full:
        batches = [b for b in batches if _full(len(b), sum(tokens[firsts[at]] for at in b), embedder.max_inputs, limit)]
    with ThreadPoolExecutor(concurrency, thread_name_prefix="embed") as pool:
        run = _Run(embedder, texts, tokens, pool, deque([firsts[at] for at in batch] for batch in batches), terms)
        for indices, result in run.outcomes(concurrency):
            yield _with_twins(indices, result, [owners[texts[index]] for index in indices])


class _Run:
    """The requests of one `embed_all`: those still to send and those in flight."""

    def __init__(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        tokens: Sequence[int],
        pool: ThreadPoolExecutor,
        waiting: deque[list[int]],
        terms: Terms,
    ) -> None:
        self._embedder = embedder
        self._texts = texts
        self._tokens = tokens
        self._pool = pool
        self._waiting = waiting
        self._terms = terms
        self._until = time.monotonic() + terms.seconds
        self._flying: dict[Future[Vectors], list[int]] = {}
        self._error: BaseException | None = None
        self._answered = False
        self._refusals = 0
        self._failing_since: float | None = None

    def outcomes(self, concurrency: int) -> Iterator[Outcome]:
        self._start(concurrency)
        while self._flying:
            done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
            landed = [outcome for request in done for outcome in self._land(request, self._flying.pop(request))]
            yield from landed
            # Refill only now: a crash loses the answers that are not yet recorded and all requests in flight.
            self._start(concurrency)
        if self._error is not None:
            raise self._error

    def _start(self, concurrency: int) -> None:
        while self._waiting and self._error is None and len(self._flying) < self._allowed(concurrency):
            self._error = self._ended()
            if self._error is None:
                batch = self._waiting.popleft()
                self._flying[self._pool.submit(self._send, batch)] = batch

    def _allowed(self, concurrency: int) -> int:
        budget = self._terms.budget
        return min(concurrency, budget.concurrency) if budget else concurrency

    def _ended(self) -> FoldexError | None:
        try:
            self._terms.check()
        except FoldexError as error:
            return error
        if self._answered and time.monotonic() > self._until:
            return SliceOver("The time of this slice is spent; the next one goes on where it ended.")
        return None

    def _send(self, batch: list[int]) -> Vectors:
        """Send one request. Runs in a thread of the pool, so that waiting for the budget delays no answer."""
        texts = [self._texts[index] for index in batch]
        terms, budget = self._terms, self._terms.budget
        if budget is None:
            return self._embedder.embed(texts)
        return budget.call(
            lambda: self._embedder.embed(texts),
            project=terms.project,
            tokens=sum(self._tokens[index] for index in batch),
            check=terms.check,
        )

    def _land(self, request: Future[Vectors], batch: list[int]) -> Iterator[Outcome]:
        error = request.exception()
        if error is None:
            self._answered, self._failing_since = True, None
            yield batch, request.result()
        elif isinstance(error, EmbeddingRefused):
            self._refusals += 1
            yield from self._narrow(batch, error)
        elif isinstance(error, EmbeddingUnavailable) and self._worth_repeating(error):
            self._waiting.appendleft(batch)
        else:
            self._error = self._error or error

    def _worth_repeating(self, error: EmbeddingUnavailable) -> bool:
        """Whether the wait for the provider ends within `PATIENCE`, counted from its first failure."""
        if self._terms.budget is None or error.data.get("gave_up"):
            return False
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        return now + float(error.data["retry_after"]) < self._failing_since + PATIENCE

    def _narrow(self, batch: list[int], refusal: EmbeddingRefused) -> Iterator[Outcome]:
        """Yield texts that the provider names or refuses alone as outcomes; queue the rest of the batch again."""
        named = {batch[at] for at in refusal.data.get("indices", [])}
        refused = named or set(batch if len(batch) == 1 or self._refusals >= MAX_REFUSALS else [])
        if refused:
            yield sorted(refused), refusal
        rest = [index for index in batch if index not in refused]
        half = len(rest) if named else (len(rest) + 1) // 2
        self._waiting.extendleft(part for part in (rest[half:], rest[:half]) if part)


def _full(inputs: int, tokens: int, max_inputs: int, max_tokens: int) -> bool:
    return inputs >= FULL * max_inputs or tokens >= FULL * max_tokens


def _owners(texts: Sequence[str]) -> dict[str, list[int]]:
    owners: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        owners.setdefault(text, []).append(index)
    return owners


def _with_twins(indices: list[int], result: Vectors | EmbeddingRefused, twins: Sequence[Sequence[int]]) -> Outcome:
    """The outcome, extended to every text that equals one of those sent."""
    everyone = [index for group in twins for index in group]
    if isinstance(result, EmbeddingRefused) or len(everyone) == len(indices):
        return everyone, result
    rows = [row for row, group in enumerate(twins) for _ in group]
    return everyone, result[rows]
