"""One slice of indexing: claim → prepare → embed → commit, until its time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from schemas.errors import FoldexError, SliceOver
from worker.index.claim_turns import ClaimTurns
from worker.index.commit import commit, record_paid, still_claimed
from worker.index.embed import embed
from worker.index.file_states import EmbeddedFile
from worker.index.prepare import prepare
from worker.index.run import IndexRun
from worker.state.index.files import FileClaim

#: Maximum number of files per claim.
MAX_CLAIM_FILES = 192
#: Minimum of that number. In between, a claim takes one file per text that fits the requests in flight: more would only
#: keep files from other workers.
MIN_CLAIM_FILES = 32
#: Minimum bytes of text per token.
BYTES_PER_TOKEN = 3


class TurnResult(NamedTuple):
    """The number of files that got their outcomes in one turn, and whether it claimed any, so that more may wait."""

    finished: int
    more: bool


def index_slice(run: IndexRun, task_id: UUID, seconds: float) -> Iterator[TurnResult]:
    """Claim and index files until the time is up or none is left. Yields after each turn. Raises as `index_files`."""
    deadline = time.monotonic() + seconds
    turns = ClaimTurns(run, task_id, max_files=claim_files(run), max_bytes=claim_bytes(run))
    waiting: Sequence[EmbeddedFile] = []
    more = True
    while more:
        claims = turns.claim()
        more = bool(claims) and time.monotonic() < deadline
        started = len(claims) + len(waiting)
        if started:
            waiting = index_files(run, claims, waiting, more=more)
        yield TurnResult(started - len(waiting), more=bool(claims))


def index_files(
    run: IndexRun, claims: Sequence[FileClaim], waiting: Sequence[EmbeddedFile] = (), *, more: bool = False
) -> Sequence[EmbeddedFile]:
    """Take claimed files, and those `waiting` from the previous call, to their outcomes.

    If `more` files are to come, texts that do not fill a request wait for them; pass the returned files to the next
    call. Raises errors that concern more than one file: `EmbeddingError`, `StoreError`, `SourceUnavailable`,
    `DiskFull`, `LeaseLost`, `SliceOver`. Claims without an outcome are then still held, and repeating them changes
    nothing already written. Files that need no more embedding get their outcomes even if the provider is down.
    """
    try:
        if run.space is not None:
            run.space.check()
        prepared = prepare(run, claims)
        all_prepared = len(prepared) == len(claims)
        waiting = still_claimed(run, waiting)
        files, stopped = embed(run, prepared, waiting, more=more and all_prepared)
        waiting = [file for file in files if not file.complete]
        commit(run, [file for file in files if file.complete])
        if stopped:
            raise stopped
        if not all_prepared:
            raise SliceOver
    except FoldexError:
        record_paid(run, waiting)
        raise
    return waiting


def claim_files(run: IndexRun) -> int:
    """Return the number of files of one claim."""
    return max(MIN_CLAIM_FILES, min(MAX_CLAIM_FILES, run.embedder.max_inputs * run.concurrency))


def claim_bytes(run: IndexRun) -> int:
    """Return the bytes of one claim: they fill the requests in flight once, since more would delay first results."""
    limit = run.embedder.max_request_tokens
    budget_limit = run.budget and run.budget.max_request_tokens
    return min(limit, budget_limit or limit) * run.concurrency * BYTES_PER_TOKEN
