"""Rows of `chunk` and `chunk_tombstone`: text with its location, and vectors that the store must delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from schemas.content.document import Chunk, text_hash
from schemas.errors import LeaseLost
from worker.formats.by_name import file_stem
from worker.reading import as_read
from worker.state.index.delete_queue import LONGEST_PAUSE
from worker.state.index.files import FileClaim
from worker.state.pool import Pool, autocommit
from worker.state.queries import load, text_array
from worker.tokens.keywords import Keywords

#: Maximum delay of a write after its sender gave up: the store's 15 s timeout with a wide margin.
LATE_WRITE = timedelta(minutes=5)
#: Time after which the sweep repeats a first delete that was not confirmed.
FIRST_DELETE = timedelta(seconds=20)

_SQL = load("index/chunks")


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk that search shows, with all its data in the vector store."""

    file_id: UUID
    id: UUID
    content_hash: str
    chunk_index: int
    json_pointer: str | None
    symbol: str | None
    node_type: str | None
    scope: str | None
    language: str | None
    level: int
    embedded: bool


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk with its id and its location in the file; `lead` and `trail` are the file's text around it.

    A chunk that is not `embedded` has no vector, so only its words find it.
    """

    id: UUID
    file_id: UUID
    index: int
    chunk: Chunk
    content_hash: str
    language: str | None
    lead: str = ""
    trail: str = ""
    embedded: bool = True


#: A chunk, its keywords in Postgres, and whether it lacks its vector.
StagedChunk = tuple[PlacedChunk, Keywords | None, bool]


class _LostRow(NamedTuple):
    """A row of `lost`, before the columns of its `Chunk`."""

    file_id: UUID
    type: str | None
    path: str
    id: UUID
    place: int
    content_hash: str
    language: str | None
    lead: str
    trail: str
    embedded: bool


_ROW_COLUMNS = len(_LostRow._fields)


@dataclass(frozen=True, slots=True)
class ChunkTombstones:
    """Vectors of one index to delete; no late write can bring back those in `final`."""

    index_id: UUID
    namespace: str
    dimensions: int
    ids: list[UUID]
    final: list[UUID]


def live(pool: Pool, files: Sequence[UUID]) -> dict[UUID, list[LiveChunk]]:
    """Return the live chunks of files that have their vectors, in order."""
    by_file: dict[UUID, list[LiveChunk]] = defaultdict(list)
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(LiveChunk))
        for row in cursor.execute(_SQL["live"], {"files": list(files)}):
            by_file[row.file_id].append(row)
    return by_file


def read_lost(pool: Pool, files: Sequence[UUID]) -> dict[UUID, list[PlacedChunk]]:
    """Return the live chunks of files whose vectors the store lacks, in order."""
    by_file: dict[UUID, list[PlacedChunk]] = defaultdict(list)
    with pool.connection() as connection:
        for columns in connection.execute(_SQL["lost"], {"files": list(files)}):
            row = _LostRow(*columns[:_ROW_COLUMNS])
            chunk = with_embedded_form(Chunk(*columns[_ROW_COLUMNS:]), row.content_hash, row.type, row.path)
            facts = row.content_hash, row.language, row.lead, row.trail, row.embedded
            by_file[row.file_id].append(PlacedChunk(row.id, row.file_id, row.place, chunk, *facts))
    return by_file


def with_embedded_form(chunk: Chunk, content_hash: str, type_: str | None, path: str) -> Chunk:
    """Return a chunk of a row with what the row lacks of its embedded text. `path` is that of its indexed file."""
    chunk = chunk._replace(read=as_read(type_, chunk.text), stem=file_stem(path))
    if text_hash(chunk.embedded_text) == content_hash:
        return chunk
    # not code, or an index without stems, or the stem would have made the chunk too long
    return chunk._replace(stem="")


def note_vectors(connection: Connection[Any], ids: Sequence[UUID], *, forget_words: bool) -> None:
    """Record that the store has all its data of these chunks. With `forget_words`, Postgres deletes their words."""
    connection.execute(_SQL["note_vectors"], {"ids": list(ids), "forget_words": forget_words})


def draft(pool: Pool, owner: UUID, epoch: int, drafts: Sequence[tuple[FileClaim, Sequence[UUID]]]) -> None:
    """Record chunks that the store gets before they have rows. Every vector needs one or the other.

    Raises `LeaseLost` if `owner` lost one of the claims, or if the epoch moved on.
    """
    claims = [claim for claim, _ in drafts]
    values: dict[str, object] = {"owner": owner, "epoch": epoch, "files": [claim.id for claim in claims]}
    values["generations"] = [claim.generation for claim in claims]
    values["ids"] = [f"{{{','.join(map(str, ids))}}}" for _, ids in drafts]
    with pool.connection() as connection:
        (held,) = connection.execute(_SQL["draft"], values).fetchone() or (0,)
    if held < len(drafts):
        raise LeaseLost("the task was cancelled, deleted or taken over")


def bury(
    connection: Connection[Any],
    *,
    files: Sequence[UUID],
    failed: Sequence[UUID],
    kept: Iterable[UUID],
    new: Iterable[UUID],
) -> list[UUID]:
    """Delete the rows of finished files that are neither kept nor rewritten. Returns the ids moved to the tombstones.

    A failed file keeps its live chunks.
    """
    ids = {"kept": text_array(map(str, kept)), "new": text_array(map(str, new))}
    values: dict[str, object] = {"files": list(files), "failed": list(failed), **ids}
    return [id_ for (id_,) in connection.execute(_SQL["bury"], values)]


def move_kept(connection: Connection[Any], kept: Sequence[StagedChunk]) -> None:
    """Rewrite the places and words of live chunks that stay."""
    if kept:
        _stage(connection, kept)
        connection.execute(_SQL["move_kept"])


def give_words(connection: Connection[Any], lost: Sequence[StagedChunk]) -> None:
    """Index the words of live chunks in Postgres until their vectors are written."""
    if lost:
        _stage(connection, lost)
        connection.execute(_SQL["give_words"])


def write_live(connection: Connection[Any], index_id: UUID, new: Iterable[StagedChunk]) -> None:
    """Write the rows of chunks that become live when this transaction ends."""
    with connection.cursor().copy(_SQL["write_live"]) as copy:
        for chunk in new:
            copy.write_row((index_id, True, *_columns(*chunk)))


def bury_strays(pool: Pool, index_id: UUID, ids: Sequence[UUID]) -> bool:
    """Delete vectors that no chunk row refers to. Returns False if the index, with its whole namespace, is deleted."""
    values = {"index_id": index_id, "ids": list(ids)}
    with pool.connection() as connection:
        if connection.execute(_SQL["is_there"], values).fetchone() is None:
            return False
        connection.execute(_SQL["bury_strays"], values)
        return True


def move_keywords(connection: Connection[Any], paths: Mapping[UUID, Keywords]) -> None:
    """Rewrite the keyword fields of moved files' chunks, because the path is part of them.

    `paths` holds the files' paths as `keywords.path_vectors` returns them.
    """
    values = {"keywords": [path.text for path in paths.values()], "codes": [path.code for path in paths.values()]}
    connection.execute(_SQL["move_keywords"], {"files": list(paths), **values})


def of_file(pool: Pool, file_id: UUID, *, unembedded: bool) -> list[tuple[UUID, str, str]]:
    """Return (id, context, text) of a file's live chunks; with `unembedded` also those without a vector."""
    with pool.connection() as connection:
        return connection.execute(_SQL["of_file"], {"file_id": file_id, "unembedded": unembedded}).fetchall()


def confirm_deleted(pool: Pool, ids: Sequence[UUID]) -> None:
    """Record that the store confirmed the deletion of these vectors."""
    with pool.connection() as connection:
        connection.execute(_SQL["confirm_deleted"], {"ids": list(ids)})


def due_tombstones(pool: Pool, vector_store: str, *, indexes: int, each: int) -> list[ChunkTombstones]:
    """Return vectors whose first delete is unconfirmed, or whose second is due, from the longest-waiting index on.

    Returns at most `indexes` indexes of one store, and `each` vectors per index.
    """
    values = {"vector_store": vector_store, "indexes": indexes, "each": each, "longest": LONGEST_PAUSE}
    values |= {"late": LATE_WRITE, "patience": FIRST_DELETE}
    with autocommit(pool) as connection:
        return (
            connection.cursor(row_factory=class_row(ChunkTombstones)).execute(_SQL["due_tombstones"], values).fetchall()
        )


def purge_tombstones(pool: Pool, ids: Sequence[UUID]) -> None:
    """Delete the tombstones of vectors that were deleted twice."""
    with pool.connection() as connection:
        connection.execute(_SQL["purge_tombstones"], {"ids": list(ids)})


def _stage(connection: Connection[Any], placed: Iterable[StagedChunk]) -> None:
    """Write the rows into the temporary table of this transaction."""
    connection.execute(_SQL["stage"])
    with connection.cursor().copy(_SQL["copy"]) as copy:
        for chunk in placed:
            copy.write_row(_columns(*chunk))


def _columns(p: PlacedChunk, keywords: Keywords | None, is_lost: bool) -> tuple[object, ...]:
    c = p.chunk
    return (
        *(p.id, p.file_id, p.index, c.json_pointer, c.text, c.context, p.lead, p.trail, p.content_hash),
        *(c.tokens, c.start_line, c.end_line, c.start_char, c.end_char, c.title, c.symbol, c.node_type),
        *(c.scope, p.language, c.level, c.page, p.embedded, is_lost),
        *((None, None) if keywords is None else (keywords.text, keywords.code)),
    )
