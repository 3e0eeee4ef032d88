"""One slice of indexing: claim → prepare → write words → embed → commit, until its time is up.

A file gets its outcome in one step, or in two if its vectors would be late. Then its words come first, and a later
claim adds its vectors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from operator import not_
from typing import NamedTuple
from uuid import UUID

from schemas.errors import EmbeddingError, FoldexError, SliceOver
from worker.embed.batching import never
from worker.index.claim_turns import ClaimTurns
from worker.index.commit import commit, record_paid, still_claimed
from worker.index.embed import Meanwhile, embed, recall_vectors
from worker.index.file_states import EmbeddedFile, File
from worker.index.late import are_late, patience_seconds
from worker.index.prepare import kept, prepare
from worker.index.run import IndexRun
from worker.state.index import files
from worker.state.index.files import FileClaim

#: Maximum number of files per claim.
MAX_CLAIM_FILES = 192
#: Minimum of that limit. Otherwise a claim takes one file for each text that fits the requests in flight. More would
#: only keep files from other workers.
MIN_CLAIM_FILES = 32
#: Minimum number of texts per claim of files that only lack vectors. One process takes a small folder, because each one
#: that dies may have paid for its requests in flight.
MIN_CLAIM_TEXTS = 256
#: Minimum bytes of text per token.
BYTES_PER_TOKEN = 3


class TurnResult(NamedTuple):
    """The number of files finished in one turn, and whether the turn claimed any, so that more may wait."""

    finished: int
    more: bool


def index_slice(run: IndexRun, task_id: UUID, seconds: float) -> Iterator[TurnResult]:
    """Claim and index files until the time is up or none is left, and yield after each turn. Raises as `index_files`.

    Files that only lack vectors come last. If the provider fails before that, the others still get their words.
    """
    deadline = time.monotonic() + seconds
    words = ClaimTurns(run, task_id, max_files=claim_files(run), max_bytes=claim_bytes(run))
    waiting: Sequence[EmbeddedFile] = []
    stopped: EmbeddingError | None = None
    more = True
    while more:
        claims = words.claim()
        of_words = bool(claims)
        if not of_words and stopped is None and run.is_listed and run.asks:
            claims = claim_vectors(run, task_id)
        more = bool(claims) and time.monotonic() < deadline
        started = len(claims) + len(waiting)
        try:
            turn = replace(run, gives_way=never, asks=run.asks and stopped is None) if of_words else run
            others = OtherWords(run, words)
            meanwhile = others.write if of_words else run.write_elsewhere
            waiting = index_files(turn, claims, waiting, more=more, others=meanwhile) if started else []
            started += others.written
        except EmbeddingError as error:
            if not of_words:
                raise
            # files that need their vectors at once stay claimed until the slice ends
            stopped, waiting = error, []
        yield TurnResult(started - len(waiting), more=bool(claims))
        more = more and (of_words or not run.gives_way())
        waiting = waiting if stopped is None else []
    if stopped is not None:
        # the words of newly listed files must not wait until the provider is asked again
        raise SliceOver if claims or not run.is_listed else stopped


@dataclass(slots=True)
class OtherWords:
    """Writes the words of further files of a slice, without vectors, and counts them in `written`."""

    run: IndexRun
    turns: ClaimTurns
    written: int = 0
    _is_over: bool = False

    def write(self) -> bool:
        """Write the words of the next claim, or of other tasks once none is left. Returns whether there may be more.

        Files that need their vectors at once stay claimed until the slice ends, so no more of these are read in vain.
        """
        claims = [] if self._is_over else self.turns.claim()
        if not claims:
            return self.run.write_elsewhere()
        self._is_over = True
        waiting = index_files(replace(self.run, asks=False), claims)
        self._is_over = len(waiting) == len(claims)
        self.written += len(claims) - len(waiting)
        return True


def index_files(
    run: IndexRun,
    claims: Sequence[FileClaim],
    waiting: Sequence[EmbeddedFile] = (),
    *,
    more: bool = False,
    others: Callable[[], bool] = never,
) -> Sequence[EmbeddedFile]:
    """Take claimed files, and files `waiting` from the previous call, to their outcomes or at least to their words.

    With `more`, texts that do not fill a request wait for further files; pass the returned files to the next call.
    Raises errors that concern more than one file: `EmbeddingError`, `StoreError`, `SourceUnavailable`, `DiskFull`,
    `LeaseLost`, `SliceOver`. Claims without an outcome are then still held, and repeating them changes nothing already
    written. Even if the provider is down, files are written that need no more embedding, or whose words may precede
    their vectors. While the provider takes too long, the words of these files are written, then those of `others`.
    """
    try:
        if run.space is not None:
            run.space.check()
        began = time.monotonic()
        prepared = prepare(run, claims)
        all_prepared = len(prepared) == len(claims)
        recent = _write_words(run, prepared, began)
        waiting = still_claimed(run, waiting)
        hurried, meanwhile = _hurried(run, [*waiting, *recent]), Meanwhile(partial(_keep_late, run), others)
        files, stopped = embed(hurried, recent, waiting, more=more and all_prepared, meanwhile=meanwhile)
        are_ready = [file.complete or file.is_refused or (stopped and _is_progress(file)) for file in files]
        ready, waiting = [*compress(files, are_ready)], [*compress(files, map(not_, are_ready))]
        commit(run, ready)
        if stopped:
            raise stopped
        if not all_prepared:
            raise SliceOver
    except FoldexError:
        record_paid(run, waiting)
        raise
    return waiting


def _write_words(run: IndexRun, prepared: Sequence[File], began: float) -> list[EmbeddedFile]:
    """Write the words of files whose vectors would be late, and files without missing vectors. Returns the others."""
    files = recall_vectors(run, prepared)
    early = [file for file in files if file.has_early_words]
    is_local = run.budget is None
    if run.asks and not are_late(run.pace, early, time.monotonic() - began, run.left_bytes, is_local=is_local):
        return files
    written = {file.claim.id for file in files if file.complete} | {file.claim.id for file in early}
    commit(run, [file for file in files if file.claim.id in written])
    return [file for file in files if file.claim.id not in written]


def _keep_late(run: IndexRun, files: Sequence[EmbeddedFile]) -> Sequence[EmbeddedFile]:
    """Write the words of files whose vectors did not come in time. Returns files without vectors, under new claims."""
    run.pace.note_failure()
    written = {file.claim.id: replace(file, words={}) for file in files}
    claims = commit(run, [*written.values()], keep=True)
    return [kept(claim, written[claim.id]) for claim in claims]


def _hurried(run: IndexRun, files: Sequence[EmbeddedFile]) -> IndexRun:
    """Return the run, with a short time limit for vectors if words wait for them."""
    if not any(file.has_early_words for file in files):
        return run
    patience = patience_seconds(run.pace, files)
    return replace(run, patience=patience, embed_seconds=min(run.embed_seconds, patience))


def _is_progress(file: EmbeddedFile) -> bool:
    """Return whether a file without all its vectors has something to write."""
    return file.has_early_words or (file.state.may_lack_vectors and bool(file.vectors))


def claim_vectors(run: IndexRun, task_id: UUID) -> Sequence[FileClaim]:
    """Claim files that only lack vectors: at least enough texts to fill the requests in flight."""
    most = max(MIN_CLAIM_TEXTS, run.embedder.max_inputs * run.concurrency)
    return files.claim_vectors(
        run.pool,
        task_id=task_id,
        index_id=run.index.id,
        owner=run.lease.owner,
        max_files=MAX_CLAIM_FILES,
        most=most,
        least=MIN_CLAIM_TEXTS,
    )


def claim_files(run: IndexRun) -> int:
    """Return the maximum number of files of one claim."""
    return max(MIN_CLAIM_FILES, min(MAX_CLAIM_FILES, run.embedder.max_inputs * run.concurrency))


def claim_bytes(run: IndexRun) -> int:
    """Return the bytes of a first claim. They fill the requests in flight; more would delay first results."""
    limit = run.embedder.max_request_tokens
    budget_limit = run.budget and run.budget.max_request_tokens
    return min(limit, budget_limit or limit) * run.concurrency * BYTES_PER_TOKEN
