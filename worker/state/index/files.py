"""Rows of `search_index_file`: the claims and outcomes of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from psycopg import Connection
from psycopg.rows import class_row

from schemas.content.document import NO_PROPERTIES, DocumentProperties
from schemas.content.metadata import Value
from schemas.errors import LeaseLost
from schemas.reason import FileStatus, Reason
from worker.state.index import counting
from worker.state.index.leftovers import NO_ID
from worker.state.index.tasks import LEASE
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

#: Number of processes that a file may crash before it fails.
MAX_CRASHES = 3
#: Number of processes that may die while holding a file, for any reason, before it is tried alone and each death
#: counts.
MAX_DEATHS = 20
#: A file of at most this many bytes may share a claim with any smaller files: reading and embedding it delays their
#: outcomes by about a second.
SMALL_BYTES = 65_536
#: The last files are shared among workers in claims of at least this part of a full one, and of `SMALL_BYTES`.
LAST_CLAIM_PART = 1 / 16
#: More bytes than any file can have.
NO_LIMIT = (1 << 63) - 1
#: Maximum UTF-8 bytes of a path: an index row of Postgres holds 2,704, and one file must not stop its folder.
MAX_PATH = 2000

_SQL = load("index/files")


class ClaimPosition(NamedTuple):
    """The place of a file in the order of claims."""

    size_bytes: int
    id: UUID


#: The place before all files.
BEGINNING = ClaimPosition(-1, NO_ID)


@dataclass(frozen=True, slots=True)
class FileClaim:
    """A file row that this worker holds a lease on.

    `generation` is the claim's own number, greater than the number of any earlier claim of any file. `patch_pending`:
    an earlier claim may have patched the store's rows with a path that never became live. `vectors_due` of its live
    chunks lack their vectors; if it `awaits_vectors`, nothing else is left to do.
    """

    id: UUID
    key: bytes
    path: str
    id_path: str
    node_id: str | None
    type: str | None
    size_bytes: int
    stamp: str
    code_version: str
    listed_reason: Reason | None
    work: str
    live_fingerprint: str | None
    live_path: str | None
    live_id_path: str | None
    live_chunks: int
    live_tokens: int
    live_embedded: bool
    lost: bool
    words_language: str | None = None
    generation: int = 0
    patch_pending: bool = False
    properties: Mapping[str, str] | None = None
    stated: Mapping[str, Mapping[str, Value]] | None = None
    note: str | None = None
    vectors_due: int = 0
    awaits_vectors: bool = False

    @property
    def live_properties(self) -> DocumentProperties:
        """The document properties of the live content."""
        return DocumentProperties(**self.properties or {})


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The result of the work on one claimed file. `stamp` is None if it was too young to be trusted.

    `generation` is the claim's. `embedded` is false for a file that only words find. `note` describes content that its
    reader could not interpret. `vectors_due` of its live chunks still lack their vectors. `stated` is metadata by its
    origin.
    """

    id: UUID
    generation: int
    status: FileStatus
    reason: Reason | None = None
    message: str | None = None
    type: str | None = None
    stamp: str | None = None
    fingerprint: str | None = None
    chunks: int = 0
    live_tokens: int = 0
    embedded: bool = True
    embedded_chunks: int = 0
    reused_chunks: int = 0
    tokens: int = 0
    timings: dict[str, float] | None = None
    mime: str | None = None
    is_binary: bool | None = None
    language: str | None = None
    words_language: str | None = None
    properties: DocumentProperties = NO_PROPERTIES
    note: str | None = None
    vectors_due: int = 0
    stated: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


def file_id(index_id: UUID, key: bytes) -> UUID:
    """Return uuid5(index, key), computed here because Python 3.11's `uuid5` takes no bytes."""
    return UUID(bytes=hashlib.sha1(index_id.bytes + key, usedforsecurity=False).digest()[:16], version=5)


def fitting(path: str) -> str:
    """Return the path as its row stores it: a very long one keeps its beginning, and its end with the name."""
    data = path.encode()
    if len(data) <= MAX_PATH:
        return path
    half = MAX_PATH // 2
    return f"{data[:half].decode(errors='ignore')}…{data[-half:].decode(errors='ignore')}"


def claim(
    pool: Pool,
    *,
    task_id: UUID,
    index_id: UUID,
    owner: UUID,
    max_files: int,
    max_bytes: int,
    after: ClaimPosition = BEGINNING,
    max_size: int = NO_LIMIT,
) -> list[FileClaim]:
    """Lease pending files of a task whose words are to be written, small ones first.

    Skips files that other workers hold. Takes only files after a place in this order, of at most `max_size` bytes.
    """
    values = {"task_id": task_id, "index_id": index_id, "owner": owner, "files": max_files, "vectors": False}
    values |= {"after_size": after.size_bytes, "after": after.id, "max_size": max_size, "small": SMALL_BYTES}
    return _claim(pool, {**values, "most": max_bytes, "least": max(int(max_bytes * LAST_CLAIM_PART), SMALL_BYTES)})


def claim_vectors(
    pool: Pool, *, task_id: UUID, index_id: UUID, owner: UUID, max_files: int, most: int, least: int
) -> list[FileClaim]:
    """Lease files of a task that lack only vectors: about `most` vectors, or `least` of the last ones."""
    values = {"task_id": task_id, "index_id": index_id, "owner": owner, "files": max_files, "vectors": True}
    values |= {"after_size": BEGINNING.size_bytes, "after": BEGINNING.id, "max_size": NO_LIMIT, "small": most}
    return _claim(pool, {**values, "most": most, "least": least})


def _claim(pool: Pool, values: Mapping[str, object]) -> list[FileClaim]:
    with pool.connection() as connection:
        # a task that is ending takes its files back, and would miss files that are claimed at that time
        connection.execute(_SQL["hold_epoch"], values)
        cursor = connection.cursor(row_factory=class_row(FileClaim))
        return cursor.execute(_SQL["claim"], {**values, "lease": LEASE}).fetchall()


def count_pending(pool: Pool, index_id: UUID, *, most: int) -> int:
    """Count the files that wait for a worker, for any work, up to `most`."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["count_pending"], {"index_id": index_id, "most": most}).fetchone()
        return int(row[0]) if row else 0


def are_held(pool: Pool, task_id: UUID) -> bool:
    """Return whether files of a task wait for a worker, but other transactions lock all these files."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["are_held"], {"task_id": task_id})


def any_work(pool: Pool) -> bool:
    """Return whether any worker holds files of any task."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_work"])


def open_files(pool: Pool, index_id: UUID) -> dict[str, int]:
    """Count an index's unfinished files by status and work."""
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["open_files"], {"index_id": index_id}).fetchall())


def release(pool: Pool, owner: UUID) -> None:
    """Release the claimed files that are not finished."""
    with pool.connection() as connection:
        connection.execute(_SQL["release"], {"owner": owner})


def still_claimed(pool: Pool, owner: UUID, claims: Sequence[FileClaim]) -> set[UUID]:
    """Return the ids of files whose claims still hold: not listed, released or claimed again since."""
    values = {"ids": [claim.id for claim in claims], "generations": [claim.generation for claim in claims]}
    with autocommit(pool) as connection:
        return {row[0] for row in connection.execute(_SQL["still_claimed"], {**values, "owner": owner}).fetchall()}


def finish(connection: Connection[Any], owner: UUID, outcomes: Iterable[FileOutcome]) -> set[UUID]:
    """Record outcomes. Returns the ids of files whose claims still hold; the other files do not change."""
    connection.execute(_SQL["stage_outcomes"])
    with connection.cursor().copy(_SQL["copy_outcomes"]) as copy:
        for o in outcomes:
            copy.write_row(
                (
                    *(o.id, o.generation, o.status, o.reason, o.message, o.type, o.stamp, o.fingerprint, o.chunks),
                    *(o.live_tokens, o.embedded, o.embedded_chunks, o.reused_chunks, o.tokens),
                    *(orjson.dumps(o.timings or {}).decode(), o.mime, o.is_binary, o.language),
                    *(o.words_language, _json(asdict(o.properties)), o.note, o.vectors_due, _json(o.stated)),
                )
            )
    return {row[0] for row in connection.execute(_SQL["finish"], {"owner": owner}).fetchall()}


def claim_on(connection: Connection[Any], owner: UUID, ids: Iterable[UUID]) -> list[FileClaim]:
    """Claim the files again that this transaction finished without all their vectors."""
    cursor = connection.cursor(row_factory=class_row(FileClaim))
    return cursor.execute(_SQL["claim_on"], {"owner": owner, "ids": list(ids)}).fetchall()


def _json(stated: Mapping[str, object]) -> str | None:
    """Return the non-empty values as JSON."""
    stated = {name: value for name, value in stated.items() if value}
    return orjson.dumps(stated).decode() if stated else None


def add_paid(pool: Pool, epoch: int, paid: Sequence[tuple[UUID, int, int]]) -> None:
    """Add the provider usage of the task of this epoch for files: their ids, chunks and tokens."""
    ids, chunks, tokens = map(list, zip(*paid, strict=True))
    with pool.connection() as connection:
        connection.execute(_SQL["add_paid"], {"epoch": epoch, "ids": ids, "chunks": chunks, "tokens": tokens})
    counting.distrust(pool, ids)


def hold_epoch(connection: Connection[Any], index_id: UUID, epoch: int) -> None:
    """Keep the epoch of an index fixed until this transaction ends. Raises `LeaseLost` if it has already moved."""
    row = connection.execute(_SQL["hold_epoch"], {"index_id": index_id}).fetchone()
    if row is None or row[0] != epoch:
        raise LeaseLost("the index was cancelled, deleted or taken over by a newer task")


def prefer_indexes(connection: Connection[Any]) -> None:
    """Make this transaction use indexes: it looks for a few files in tables that many indexes share."""
    connection.execute(_SQL["prefer_indexes"])


def note_parsed(pool: Pool, owner: UUID) -> None:
    """Record that the files of `owner` are parsed: from now on they are not to blame if its process dies."""
    with pool.connection() as connection:
        connection.execute(_SQL["parsed"], {"owner": owner})


def return_expired(pool: Pool) -> list[tuple[UUID, str, int]]:
    """Release the files of dead workers. Returns their ids, paths, and the number of processes that each crashed alone.

    After the third crash a file fails as `crashed`, and its half-written chunks move to the tombstones.
    """
    values = {"crashes": MAX_CRASHES, "deaths": MAX_DEATHS, "message": Reason.CRASHED.remedy, "lease": LEASE}
    with pool.connection() as connection:
        returned = connection.execute(_SQL["return_expired"], values).fetchall()
        given_up = [id_ for id_, _, _, is_given_up in returned if is_given_up]
        if given_up:
            connection.execute(_SQL["bury_given_up"], {"files": given_up})
    if given_up:
        counting.distrust(pool, given_up)
    return [(id_, path, crashes) for id_, path, crashes, _ in returned]
