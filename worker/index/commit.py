"""Writes files and records their outcomes. No text is lost or shown twice on the way.

The order of the writes is in docs/explanation/architecture.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from psycopg import Connection

from schemas.errors import FoldexError
from worker.index.file_states import EmbeddedFile, FailedFile, PreparedFile, RemovedFile, UnchangedFile
from worker.index.run import IndexRun
from worker.index.write import found_by, keyword_vectors, rows_of, take_back_on_error, write
from worker.state.index import chunks
from worker.state.index import files as file_rows
from worker.state.index.files import FileClaim, FileOutcome
from worker.state.search import keywords, symbols

log = structlog.get_logger()


def commit(run: IndexRun, ready: Sequence[EmbeddedFile], *, keep: bool = False) -> Sequence[FileClaim]:
    """Write the files, make them live, and delete the rows that they replace. Skip files whose claims were lost.

    Words make chunks without vectors searchable, and their files wait for another claim. With `keep`, this worker gets
    that claim at once, and the claims are returned. Raises `StoreError` or `LeaseLost`; everything paid for is recorded
    even then.
    """
    try:
        run.lease.check()
        ready = still_claimed(run, ready)
        if not ready:
            # all texts wait until they fill a request
            return []
        written = write(run, ready)
        with take_back_on_error(run, ready):
            run.lease.check()
            finished, buried, kept = finish(run, written, keep=keep)
    except FoldexError:
        record_paid(run, ready)
        raise
    record_paid(run, [file for file in ready if file.claim.id not in finished])
    forget(run, buried)
    return kept


def still_claimed(run: IndexRun, waiting: Sequence[EmbeddedFile]) -> list[EmbeddedFile]:
    """Return the files whose claims still hold. A later claim prepares the other files again."""
    claimed = file_rows.still_claimed(run.pool, run.lease.owner, [file.claim for file in waiting]) if waiting else set()
    record_paid(run, [file for file in waiting if file.claim.id not in claimed])
    return [file for file in waiting if file.claim.id in claimed]


class Finished(NamedTuple):
    """The ids of the finished files, the ids of the vectors to delete, and the claims that continue."""

    files: Collection[UUID]
    buried: Sequence[UUID]
    kept: Sequence[FileClaim]


def finish(run: IndexRun, written: Sequence[EmbeddedFile], *, keep: bool = False) -> Finished:
    """Make the new chunks live and record the outcomes in one transaction.

    Files whose own lease was lost are left to their new holder. With `keep`, this worker claims the files that lack
    vectors again. Raises `LeaseLost` if the epoch moved on.
    """
    run.lease.check()
    with run.pool.connection() as connection:
        file_rows.hold_epoch(connection, run.index.id, run.epoch)
        file_rows.prefer_indexes(connection)
        finished = file_rows.finish(connection, run.lease.owner, [outcome(file) for file in written])
        buried = _replace(run, connection, [file for file in written if file.claim.id in finished])
        kept = file_rows.claim_on(connection, run.lease.owner, finished) if keep else []
    for file in written:
        reason = file.state.failure.reason if isinstance(file.state, FailedFile) else None
        path, status = file.claim.path, file.status
        log.debug("file", file_id=str(file.claim.id), path=path, status=status, reason=reason)
    return Finished(finished, buried, kept)


def _replace(run: IndexRun, connection: Connection[Any], finished: Sequence[EmbeddedFile]) -> list[UUID]:
    """Replace the live rows of finished files. Returns the ids of vectors that no row refers to any more."""
    ended = [file.state for file in finished]
    buried = _replace_chunks(run, connection, finished)
    symbols.replace(
        connection,
        run.index.id,
        files=[file.claim.id for file in ended if not file.keeps_live],
        file_symbols=[
            (file.claim.id, file.definitions, file.references) for file in ended if isinstance(file, PreparedFile)
        ],
    )
    moved = {
        file.claim.id: keywords.path_vectors(found_by(file), file.facts.words_language) for file in ended if file.moved
    }
    if moved:
        chunks.move_keywords(connection, moved)
    return buried


def _replace_chunks(run: IndexRun, connection: Connection[Any], finished: Sequence[EmbeddedFile]) -> list[UUID]:
    """Replace the rows of finished files' chunks. Returns the ids of the deleted chunks."""
    ended = [file.state for file in finished]
    prepared = [file for file in ended if isinstance(file, PreparedFile)]
    new = [file for file in finished if isinstance(file.state, PreparedFile)]
    old = [file for file in finished if not isinstance(file.state, PreparedFile)]
    buried = chunks.bury(
        connection,
        files=[file.claim.id for file in ended],
        # an unchanged file may have a draft from an earlier attempt with different content
        failed=[file.claim.id for file in ended if file.keeps_live],
        kept=(id_ for file in prepared for id_ in file.live),
        new=(chunk.id for file in prepared for chunk in file.new),
    )
    kept = ((file, chunk) for file in prepared if file.live for chunk in file.chunks if chunk.id in file.live)
    chunks.move_kept(connection, [(chunk, keyword_vectors(run, file, chunk), False) for file, chunk in kept])
    chunks.write_live(connection, run.index.id, rows_of(run, new))
    chunks.give_words(connection, [row for row in rows_of(run, old, only_lost=True) if row[1] is not None])
    chunks.note_vectors(
        connection,
        [chunk.id for file in old for chunk in file.written if chunk.id in file.vectors or not chunk.embedded],
        forget_words=run.index.keyword_index == "store",
    )
    return buried


def outcome(embedded: EmbeddedFile) -> FileOutcome:
    """Return the outcome to record in the file's row."""
    file, claim, paid = embedded.state, embedded.claim, embedded.paid
    recorded = FileOutcome(
        claim.id,
        claim.generation,
        embedded.status,
        type=file.facts.type,
        stamp=file.facts.stamp,
        embedded_chunks=paid.chunks,
        tokens=paid.tokens,
        timings={**file.timings, **embedded.timings},
        mime=file.facts.mime,
        is_binary=file.facts.is_binary,
        language=file.facts.language,
        words_language=file.facts.words_language,
        properties=file.facts.properties,
        stated=file.facts.stated,
        note=file.facts.note,
    )
    if isinstance(file, RemovedFile):
        return recorded
    if isinstance(file, FailedFile):
        left = claim.vectors_due - len(file.new) if file.keeps_live else 0
        return replace(recorded, reason=file.failure.reason, message=file.failure.message, vectors_due=left)
    number = claim.live_chunks if isinstance(file, UnchangedFile) else len(file.chunks)
    tokens = claim.live_tokens if isinstance(file, UnchangedFile) else sum(chunk.chunk.tokens for chunk in file.chunks)
    return replace(
        recorded,
        fingerprint=file.facts.fingerprint,
        chunks=number,
        live_tokens=tokens,
        embedded=file.embedded,
        reused_chunks=max(0, number - paid.chunks - len(embedded.lacking)) if file.embedded else 0,
        vectors_due=len(embedded.lacking),
    )


def record_paid(run: IndexRun, files: Sequence[EmbeddedFile]) -> None:
    """Record provider usage for files without an outcome yet; the next worker finds the vectors in the cache."""
    paid = [(file.claim.id, *file.paid) for file in files if file.paid.chunks]
    if paid:
        file_rows.add_paid(run.pool, run.epoch, paid)


def forget(run: IndexRun, buried: Sequence[UUID]) -> None:
    """Delete vectors that no row refers to any more; the sweep repeats it."""
    if buried:
        run.store.write(run.index.namespace, run.dimensions, deletes=buried)
        chunks.confirm_deleted(run.pool, buried)
