"""Looks up files of an index for callers and filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from schemas.reason import FileStatus, Reason
from schemas.tool import File
from worker.state.index.files import MAX_PATH
from worker.state.pool import Pool, autocommit
from worker.state.queries import load, only_of

#: Most files that are looked up by their ids at once.
MAX_AT_ONCE = 5_000
_ID_BYTES = 16

_SQL = load("index/files")


class IndexedFile(NamedTuple):
    """A file with live chunks, as filters see it."""

    file_node_id: str
    path: str
    id_path: str
    type: str | None
    language: str | None
    mtime_ms: int | None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of an index, with the number of its live chunks."""

    id: UUID
    path: str
    live_chunks: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files that a caller asks for. `q` is in their paths. `after` are path and id of the last listed one."""

    status: FileStatus | None = None
    reason: Reason | None = None
    q: str | None = None
    after: tuple[str, UUID] | None = None


def page(pool: Pool, index_id: UUID, wanted: Wanted, *, only: Collection[UUID] | None = None, limit: int) -> list[File]:
    """List the files of an index by path. Their remedies follow from the reasons."""
    return _listed(pool, "list", index_id, wanted, only, limit)


def page_of_some(
    pool: Pool, index_id: UUID, wanted: Wanted, by_path: bytes, *, limit: int, check: Callable[[], None]
) -> list[File] | None:
    """List as `page` does only the files with these ids, of 16 bytes each, in the order of paths. Reads no other file.

    Returns None if the last listed file is not where it was. `check` may raise to end it.
    """
    start = 0
    if wanted.after is not None:
        path, id_ = wanted.after
        last, place = get(pool, index_id, str(id_)), _place(by_path, id_)
        if place is None or last is None or (last.id, last.path) != (id_, path):
            return None
        start = place + 1
    found: list[File] = []
    step = limit
    while start * _ID_BYTES < len(by_path) and len(found) < limit:
        check()
        ids = by_path[start * _ID_BYTES : (start + step) * _ID_BYTES]
        some = [UUID(bytes=ids[at : at + _ID_BYTES]) for at in range(0, len(ids), _ID_BYTES)]
        found += _listed(pool, "list_some", index_id, wanted, some, limit - len(found))
        start, step = start + step, min(4 * step, MAX_AT_ONCE)
    return found


def _place(by_path: bytes, id_: UUID) -> int | None:
    """The position of an id among ids of 16 bytes."""
    at = by_path.find(id_.bytes)
    while at > 0 and at % _ID_BYTES:
        at = by_path.find(id_.bytes, at + 1)
    return None if at < 0 else at // _ID_BYTES


def _listed(
    pool: Pool, query: str, index_id: UUID, wanted: Wanted, only: Collection[UUID] | None, limit: int
) -> list[File]:
    path, id_ = wanted.after or (None, None)
    values: dict[str, object] = {"index_id": index_id, "status": wanted.status, "reason": wanted.reason, "q": wanted.q}
    values |= {"only": only_of(only), "after_path": path, "after_id": id_, "limit": limit}
    with pool.connection() as connection:
        # planned each time: a generic plan for all statuses misses the index that suits one status
        return connection.cursor(row_factory=class_row(File)).execute(_SQL[query], values, prepare=False).fetchall()


def get(pool: Pool, index_id: UUID, file: str) -> LiveFile | None:
    """Return a file by its id or its node id."""
    values = {"index_id": index_id, "file_id": _as_uuid(file), "node_id": file}
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(LiveFile)).execute(_SQL["get"], values).fetchone()


def live_content(pool: Pool, file_id: UUID) -> tuple[bytes, str] | None:
    """Return the key of a file, and the fingerprint of the content behind its live chunks."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["live_content"], {"file_id": file_id}).fetchone()
        return None if row is None else (bytes(row[0]), str(row[1]))


def searchable(pool: Pool, index_id: UUID, start: str = "") -> list[IndexedFile]:
    """Return every file with live chunks whose path starts with `start`."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["searchable"], {"index_id": index_id, "start": start}).fetchall()
    return list(map(IndexedFile._make, rows))


def below(pool: Pool, index_id: UUID, id_path: str, limit: int | None = None, *, of_nodes: bool = False) -> list[str]:
    """Return the `file_node_id` of files with live chunks at or below an id path (empty: of the whole index).

    `of_nodes`: the index is over content nodes, so its id paths consist of ids, and its paths of names.
    """
    path = id_path.removeprefix("/")
    # every file is below the folder itself; the row of a very long path certainly holds only its beginning
    named = path if not of_nodes and 0 < len(path.encode()) < MAX_PATH // 2 - 4 else None
    values = {"index_id": index_id, "id_path": id_path, "limit": limit, "path": named}
    with pool.connection() as connection:
        # planned each time: a generic plan for all paths does not use the index
        rows = connection.execute(_SQL["below"], values, prepare=False).fetchall()
        return [row[0] for row in rows]


def find_named(pool: Pool, index_id: UUID, names: Sequence[str]) -> list[str]:
    """Return the `file_node_id` of each of `names` (file ids or node ids) that has live chunks."""
    with pool.connection() as connection:
        values = {"index_id": index_id, "names": list(names), "ids": [id_ for name in names if (id_ := _as_uuid(name))]}
        return [row[0] for row in connection.execute(_SQL["named"], values).fetchall()]


def kinds(pool: Pool, index_id: UUID, only: Collection[UUID] | None = None) -> tuple[list[str], list[str]]:
    """Return types and languages of the files with live chunks, the most frequent first; `only` of some files."""
    values = {"index_id": index_id, "only": only_of(only)}
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["kinds"], values).fetchall()
    return list(dict.fromkeys(type_ for type_, _ in rows)), list(dict.fromkeys(name for _, name in rows if name))


def _as_uuid(value: str) -> UUID | None:
    try:
        return UUID(value)
    except ValueError:
        return None
