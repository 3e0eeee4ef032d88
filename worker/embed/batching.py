"""Embeds many texts in few requests: packs them to a model's limits and runs requests concurrently.

`worker.embed.retry` decides how to continue after a failed or refused request.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from schemas.errors import (
    EmbeddingRefused,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
    Excess,
    FoldexError,
    SliceOver,
)
from worker.embed import Embedder, Vectors, retry
from worker.embed.rate_limit import RateBudget, no_check
from worker.machine.niceness import make_thread_nicer

#: A request that reaches this share of a limit counts as full.
FULL_SHARE = 0.95
#: Groups that packing keeps open. More would fill groups better but scatter a file's chunks more widely.
_OPEN_GROUPS = 8

#: Seconds after the first request from which other work is done while requests are in flight.
PATIENCE_SECONDS = 2.0
#: Seconds between two checks for other work during a long request.
LOOK_SECONDS = 0.5
#: Niceness that a thread adds to its process's while it computes vectors. More would delay threads that wait for its
#: locks.
NICENESS = 5
#: Characters below which a text is never split, even if its model refuses it for its length.
SHORTEST_CUT = 32
_TOO_LONG = "The text is longer than the model takes; set a smaller chunk_size."

Outcome = tuple[list[int], Vectors | EmbeddingRefused]


def never() -> bool:
    """Report that no other work has priority."""
    return False


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """Conditions for starting requests: `check` raises once none is wanted; the slice ends after `seconds`.

    `budget` is None for a model that costs nothing. `project` is the project whose share of the budget is used.
    `only_full` leaves out texts that do not fill a request, for a caller that will add more texts. No further request
    starts once the time is up, or once `gives_way` reports other work with priority. While requests are in flight after
    that time, or after `patience` (None: `PATIENCE_SECONDS`), `meanwhile` does a part of other work. It returns whether
    there may be more. Threads call `note_answer` at each answer, which the caller may take later.
    """

    budget: RateBudget | None = None
    project: str = ""
    check: Callable[[], None] = no_check
    seconds: float = math.inf
    only_full: bool = False
    gives_way: Callable[[], bool] = never
    meanwhile: Callable[[], bool] = never
    note_answer: Callable[[], None] = no_check
    patience: float | None = None


FREE = RequestTerms()


@dataclass(eq=False)
class _RequestGroup:
    room: int
    indices: list[int] = field(default_factory=list)


def pack(tokens: Sequence[int], max_inputs: int, max_tokens: int) -> list[list[int]]:
    """Return the indices of `tokens` in groups of at most `max_inputs` texts and at most `max_tokens` tokens.

    Uses first fit over the last few groups. Neighbours stay together, so files are completed one after another. No two
    groups that were open at the same time would fit in one. A text above `max_tokens` gets its own group; the provider
    decides whether to accept it.
    """
    groups: list[_RequestGroup] = []
    filling: deque[_RequestGroup] = deque(maxlen=_OPEN_GROUPS)
    for index, size in enumerate(tokens):
        group = next((group for group in filling if group.room >= size), None)
        if group is None:
            group = _RequestGroup(max_tokens)
            groups.append(group)
            filling.append(group)
        group.room -= size
        group.indices.append(index)
        if len(group.indices) >= max_inputs:
            filling.remove(group)
    return [group.indices for group in groups]


def embed_all(
    embedder: Embedder, texts: Sequence[str], tokens: Sequence[int], concurrency: int, terms: RequestTerms = FREE
) -> Generator[Outcome, None, None]:
    """Embed the texts with at most `concurrency` requests at a time, and yield each answer as it arrives.

    An outcome is `(indices, vectors)`, row by row, or `(indices, refusal)` for the texts that `retry.split` gives up.
    Equal texts are sent once and yielded together. Unless another error occurs, every index that is sent is yielded
    exactly once.

    After the first error no further request starts. Requests in flight are already paid for, so their outcomes are
    awaited and yielded before the error is raised. A request that the provider cannot answer at the moment is repeated
    as long as `retry.Patience` allows. Raises `SliceOver` when the time is up, but only after at least one text was
    answered or refused, so that each slice makes progress.

    No request starts while the caller holds an outcome. To stop early, close the iterator, which waits for the requests
    in flight.
    """
    positions = _positions(texts)
    limits = _limits(embedder, terms.budget)
    batches = _packed([indices[0] for indices in positions.values()], tokens, *limits)
    if terms.only_full:
        batches = [batch for batch in batches if _is_full(len(batch), sum(tokens[i] for i in batch), *limits)]
    initializer = partial(make_thread_nicer, NICENESS) if terms.budget is None else None
    with ThreadPoolExecutor(concurrency, thread_name_prefix="embed", initializer=initializer) as pool:
        run = _EmbeddingRun(embedder, texts, tokens, pool, batches, terms)
        for indices, result in run.outcomes(concurrency):
            yield _with_duplicates(indices, result, [positions[texts[index]] for index in indices])


class _Outgrown(Exception):
    """Raised for a request that waited for permission and now exceeds the size limit that the fleet has learned."""


@dataclass(eq=False)
class _Refused:
    """A request that was refused without a reason and is sent in parts. `left` parts have no outcome yet."""

    texts: int
    left: int
    parent: _Refused | None
    #: Whether one text, which is refused alone, was the cause.
    is_excused: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    """Texts that wait together; `parent` is the refused request that contained them.

    If it `may_grow`, later texts in the queue may join it once larger requests are allowed.
    """

    indices: list[int]
    parent: _Refused | None = None
    may_grow: bool = False


class _EmbeddingRun:
    """The requests of one `embed_all`: those still to send and those in flight."""

    def __init__(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        tokens: Sequence[int],
        pool: ThreadPoolExecutor,
        waiting: Iterable[list[int]],
        terms: RequestTerms,
    ) -> None:
        self._embedder = embedder
        self._texts = texts
        self._tokens = tokens
        self._pool = pool
        self._waiting = deque(_Batch(indices, may_grow=terms.budget is not None) for indices in waiting)
        self._terms = terms
        self._until = time.monotonic() + terms.seconds
        patience = PATIENCE_SECONDS if terms.patience is None else terms.patience
        works_in = min(terms.seconds, patience) if terms.meanwhile is not never else math.inf
        self._works_at = time.monotonic() + works_in
        self._in_flight: dict[Future[Vectors], _Batch] = {}
        self._error: BaseException | None = None
        self._answered = self._has_progress = False
        self._refusals = 0
        self._patience = retry.Patience()

    def outcomes(self, concurrency: int) -> Iterator[Outcome]:
        yield from self._start(concurrency)
        while self._in_flight:
            outcomes = [
                outcome for request in self._await() for outcome in self._end(request, self._in_flight.pop(request))
            ]
            yield from outcomes
            # Refill only now: a crash loses the answers that are not yet recorded and all requests in flight.
            yield from self._start(concurrency)
        if self._error is not None:
            raise self._error

    def _await(self) -> set[Future[Vectors]]:
        """Return the requests that have ended, at least one. Other work is done while they take too long."""
        while True:
            left = min(max(0.0, self._works_at - time.monotonic()), threading.TIMEOUT_MAX)
            done, _ = wait(self._in_flight, timeout=left, return_when=FIRST_COMPLETED)
            if done:
                return done
            try:
                if not self._terms.meanwhile():
                    self._works_at = time.monotonic() + LOOK_SECONDS
            except Exception as error:  # noqa: BLE001 - raised later: the answers in flight are paid for
                self._error, self._works_at = self._error or error, time.monotonic() + LOOK_SECONDS

    def _start(self, concurrency: int) -> Iterator[Outcome]:
        """Send requests. Yields the texts that are known to be too long, which are not sent."""
        while self._waiting and self._error is None and len(self._in_flight) < self._allowed(concurrency):
            self._error = self._reason_to_stop()
            if self._error is None:
                batch, too_long = self._next()
                if too_long:
                    yield too_long, EmbeddingRefused(_TOO_LONG, excess=Excess.LENGTH)
                if batch.indices:
                    self._in_flight[self._pool.submit(self._send, batch.indices)] = batch

    def _next(self) -> tuple[_Batch, list[int]]:
        """Return the texts of the next request, and the texts that are too long for any.

        The request has the texts that waited together, or the first part of them if requests are smaller now.
        """
        waiting, budget = self._grown(self._waiting.popleft()), self._terms.budget
        limit = math.inf if budget is None else budget.sizes.shortest_refused
        indices = [index for index in waiting.indices if self._tokens[index] < limit]
        too_long = [index for index in waiting.indices if self._tokens[index] >= limit]
        parts = _packed(indices, self._tokens, *_limits(self._embedder, budget)) or [[]]
        if waiting.parent is not None:
            waiting.parent.left += len(parts) - 1
            if parts == [[]]:
                self._excuse(waiting)
        first, *others = (_Batch(part, waiting.parent, waiting.may_grow) for part in parts)
        self._waiting.extendleft(reversed(others))
        return first, too_long

    def _grown(self, batch: _Batch) -> _Batch:
        """Return the texts with later ones that fit in the same request, if larger requests are allowed than before."""
        limits, indices = _limits(self._embedder, self._terms.budget), batch.indices
        while batch.may_grow and self._waiting and self._waiting[0].may_grow:
            together = [*indices, *self._waiting[0].indices]
            if not _fits(len(together), sum(self._tokens[index] for index in together), *limits):
                break
            self._waiting.popleft()
            indices = together
        return _Batch(indices, batch.parent, batch.may_grow)

    def _allowed(self, concurrency: int) -> int:
        budget = self._terms.budget
        if budget is None:
            return concurrency
        return 1 if budget.sizes.is_in_doubt else min(concurrency, budget.concurrency)

    def _reason_to_stop(self) -> FoldexError | None:
        try:
            self._terms.check()
        except FoldexError as error:
            return error
        if self._has_progress and (time.monotonic() > self._until or self._terms.gives_way()):
            return SliceOver()
        return None

    def _send(self, batch: list[int]) -> Vectors:
        """Send one request. Runs in a thread of the pool, so that waiting for the budget delays no answer."""
        vectors = self._ask(batch)
        self._terms.note_answer()
        return vectors

    def _ask(self, batch: list[int]) -> Vectors:
        texts = [self._texts[index] for index in batch]
        terms, budget = self._terms, self._terms.budget
        if budget is None:
            return self._embedder.embed(texts)
        tokens = sum(self._tokens[index] for index in batch)

        def send() -> Vectors:
            if len(batch) > 1 and not _fits(len(batch), tokens, *_limits(self._embedder, budget)):
                raise _Outgrown
            return self._embedder.embed(texts)

        return budget.call(
            send,
            project=terms.project,
            tokens=tokens,
            share=min(1.0, max(len(batch) / self._embedder.max_inputs, tokens / self._embedder.max_request_tokens)),
            check=terms.check,
        )

    def _end(self, request: Future[Vectors], batch: _Batch) -> Iterator[Outcome]:
        """Yield the final outcomes of a finished request, and queue its other texts again."""
        error = request.exception()
        if error is None:
            self._answered = self._has_progress = True
            self._patience.note_success()
            self._learn_from_answer(batch)
            yield batch.indices, request.result()
        elif isinstance(error, EmbeddingUnreadable) and not self._answered and self._refusals >= retry.MAX_UNREADABLE:
            self._error = self._error or error
        elif isinstance(error, EmbeddingRefused):
            yield from self._split(batch, error)
        elif isinstance(error, _Outgrown) or (isinstance(error, EmbeddingUnavailable) and self._is_repeated(error)):
            self._waiting.appendleft(batch)
        else:
            self._error = self._error or error

    def _split(self, batch: _Batch, error: EmbeddingRefused) -> Iterator[Outcome]:
        """Yield the texts of a refused request that have an outcome; queue the others in smaller requests."""
        tokens = [self._tokens[index] for index in batch.indices]
        if self._terms.budget is not None:
            self._terms.budget.note_refusal(error, tokens)
        if error.excess is None:
            self._refusals += 1
        if isinstance(error, EmbeddingUnreadable) and error.answered:
            self._answered = self._has_progress = True
            yield [batch.indices[place] for place in error.answered], np.stack(list(error.answered.values()))
        again = batch.parent is not None
        refused, parts = retry.split(batch.indices, error, self._refusals, tokens, again=again)
        if refused:
            # unreadable answers may be the provider's fault, which further ones show
            self._has_progress |= not isinstance(error, EmbeddingUnreadable)
            yield refused, error
        if refused or error.excess is not None or error.indices:
            self._excuse(batch)
            is_learned = batch.may_grow and error.excess not in {None, Excess.LENGTH}
            self._waiting.extendleft(_Batch(part, may_grow=is_learned) for part in reversed(parts))
        else:
            parent = _Refused(len(batch.indices), len(parts), batch.parent)
            self._waiting.extendleft(_Batch(part, parent) for part in reversed(parts))

    def _learn_from_answer(self, batch: _Batch) -> None:
        """Learn the answered size. Also learn that a refused request was too large once all its parts are answered."""
        budget, refused = self._terms.budget, batch.parent
        if budget is None:
            return
        budget.note_answer([self._tokens[index] for index in batch.indices])
        while refused is not None:
            refused.left -= 1
            if refused.left or refused.is_excused:
                break
            budget.note_size_refusal(refused.texts)
            refused = refused.parent

    def _excuse(self, batch: _Batch) -> None:
        """Withdraw the size as the cause of refusals of requests that contained this batch: there is another cause."""
        refused = batch.parent
        while refused is not None and not refused.is_excused:
            refused.is_excused = True
            if self._terms.budget is not None:
                self._terms.budget.excuse(refused.texts)
            refused = refused.parent

    def _is_repeated(self, error: EmbeddingUnavailable) -> bool:
        # only a budget makes the repeated request wait
        return self._terms.budget is not None and self._patience.covers(error, time.monotonic())


def _limits(embedder: Embedder, budget: RateBudget | None) -> tuple[int, int]:
    """Return the texts and tokens of the largest request to send at the moment."""
    inputs, tokens = embedder.max_inputs, embedder.max_request_tokens
    if budget is None:
        return inputs, tokens
    tokens = min(tokens, budget.max_request_tokens or tokens)
    share = max(1, int(inputs * budget.request_share)), max(1, int(tokens * budget.request_share))
    return budget.largest_request(*share)


def _fits(texts: int, tokens: int, max_texts: int, max_tokens: int) -> bool:
    return texts <= max_texts and tokens <= max_tokens


def _packed(indices: Sequence[int], tokens: Sequence[int], max_inputs: int, max_tokens: int) -> list[list[int]]:
    """Return the indices in groups as of `pack`, by the tokens of their texts."""
    groups = pack([tokens[index] for index in indices], max_inputs, max_tokens)
    return [[indices[place] for place in group] for group in groups]


def _is_full(inputs: int, tokens: int, max_inputs: int, max_tokens: int) -> bool:
    return inputs >= FULL_SHARE * max_inputs or tokens >= FULL_SHARE * max_tokens


def _positions(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of each distinct text."""
    positions: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        positions.setdefault(text, []).append(index)
    return positions


def _with_duplicates(
    indices: list[int], result: Vectors | EmbeddingRefused, duplicates: Sequence[Sequence[int]]
) -> Outcome:
    """Return the outcome, extended to every text that equals a sent one."""
    all_indices = [index for group in duplicates for index in group]
    if isinstance(result, EmbeddingRefused) or len(all_indices) == len(indices):
        return all_indices, result
    rows = [row for row, group in enumerate(duplicates) for _ in group]
    return all_indices, result[rows]
