"""Many texts, few requests: packing to a model's limits, several requests in flight, refusals narrowed to one text.

This is where the retry of `EmbeddingUnavailable` and the rate budget of the whole fleet belong: both wrap the one call
of `embedder.embed` in `_Run._start`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from schemas.errors import EmbeddingRefused
from worker.embed import Embedder, Vectors

#: Groups that still take texts while packing. More would fill them better and scatter a file's chunks wider.
_OPEN_GROUPS = 8

Outcome = tuple[list[int], Vectors | EmbeddingRefused]


@dataclass(eq=False)
class _Group:
    room: int
    indices: list[int] = field(default_factory=list)


def pack(tokens: Sequence[int], max_inputs: int, max_tokens: int) -> list[list[int]]:
    """Indices of `tokens` in groups of at most `max_inputs`, whose tokens are at most `max_tokens` in all.

    First fit over the last few groups: neighbours stay together, so files finish one after the other, and no two
    groups that were open together would fit in one. A text above `max_tokens` stands alone, for the provider to judge.
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
    embedder: Embedder, texts: Sequence[str], tokens: Sequence[int], concurrency: int
) -> Generator[Outcome, None, None]:
    """Embeds the texts, at most `concurrency` requests at a time, and yields each answer as it comes.

    An outcome is `(indices, vectors)`, row by row, or `(indices, refusal)` for a text that the provider refuses even
    when it is alone. Equal texts are sent once and come out together. Every index comes out exactly once, unless there
    is another error: after the first no further request is begun, those in flight are waited for and yielded, for they
    are paid for, and then the error is raised. Nothing new is begun either while the caller holds an outcome: to stop
    early, close the iterator, which waits for what is in flight.
    """
    owners = _owners(texts)
    firsts = [indices[0] for indices in owners.values()]
    batches = pack([tokens[index] for index in firsts], embedder.max_inputs, embedder.max_request_tokens)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="embed") as pool:
        run = _Run(embedder, texts, pool, deque([firsts[at] for at in batch] for batch in batches))
        for indices, result in run.outcomes(concurrency):
            yield _with_twins(indices, result, [owners[texts[index]] for index in indices])


class _Run:
    """The requests still to send and those in flight, of one `embed_all`."""

    def __init__(
        self, embedder: Embedder, texts: Sequence[str], pool: ThreadPoolExecutor, waiting: deque[list[int]]
    ) -> None:
        self._embedder = embedder
        self._texts = texts
        self._pool = pool
        self._waiting = waiting
        self._flying: dict[Future[Vectors], list[int]] = {}
        self._error: BaseException | None = None

    def outcomes(self, concurrency: int) -> Iterator[Outcome]:
        self._start(concurrency)
        while self._flying:
            done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
            landed = [outcome for request in done for outcome in self._land(request, self._flying.pop(request))]
            # the provider works on while the caller records what has come
            self._start(concurrency)
            yield from landed
        if self._error is not None:
            raise self._error

    def _start(self, concurrency: int) -> None:
        while self._waiting and len(self._flying) < concurrency and self._error is None:
            batch = self._waiting.popleft()
            request = self._pool.submit(self._embedder.embed, [self._texts[index] for index in batch])
            self._flying[request] = batch

    def _land(self, request: Future[Vectors], batch: list[int]) -> Iterator[Outcome]:
        error = request.exception()
        if error is None:
            yield batch, request.result()
        elif isinstance(error, EmbeddingRefused):
            yield from self._narrow(batch, error)
        else:
            self._error = self._error or error

    def _narrow(self, batch: list[int], refusal: EmbeddingRefused) -> Iterator[Outcome]:
        """Refused texts that are known by name or alone are outcomes; the rest of the batch goes out again."""
        named = {batch[at] for at in refusal.data.get("indices", [])}
        refused = named or set(batch if len(batch) == 1 else [])
        if refused:
            yield sorted(refused), refusal
        rest = [index for index in batch if index not in refused]
        half = len(rest) if named else (len(rest) + 1) // 2
        self._waiting.extendleft(part for part in (rest[half:], rest[:half]) if part)


def _owners(texts: Sequence[str]) -> dict[str, list[int]]:
    owners: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        owners.setdefault(text, []).append(index)
    return owners


def _with_twins(indices: list[int], result: Vectors | EmbeddingRefused, twins: Sequence[Sequence[int]]) -> Outcome:
    """The outcome for every text that is equal to one of those sent."""
    everyone = [index for group in twins for index in group]
    if isinstance(result, EmbeddingRefused) or len(everyone) == len(indices):
        return everyone, result
    rows = [row for row, group in enumerate(twins) for _ in group]
    return everyone, result[rows]
