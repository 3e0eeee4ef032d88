"""Files whose text is in the rows, and known facts about files that may have no text yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from schemas.content.document import SourceEntry
from schemas.reason import FileStatus
from worker.state import silent_backends
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load, only_of
from worker.state.search import snippets
from worker.state.search.snippets import TextRow

#: Maximum bytes of files whose text is held in memory at a time.
_BATCH_BYTES = 4_000_000
#: Maximum number of files whose text is held in memory at a time.
_BATCH_FILES = 200
#: Rows fetched at a time.
_PAGE_ROWS = 1_000
#: Number of pending files, smallest first, that are examined for one without live text. Otherwise each query during a
#: run over files with live text would read all their rows.
_MOST_LOOKED_AT = 10_000

_SQL = load("search/file_texts")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file with live text."""

    id: UUID
    node_id: str | None
    key: bytes
    path: str
    id_path: str
    type: str | None
    size_bytes: int
    mtime_ms: int | None


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A listed file; `stamp` belongs to the content that its status describes, or is "" if it was too young.

    `is_behind`: its text, if any, comes from earlier content than was listed.
    """

    id: UUID
    type: str | None
    stamp: str
    status: FileStatus
    has_text: bool
    is_behind: bool


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Files that words cannot find yet.

    `is_listing`: the open task lists the folder. `is_first`: it is the first task. `are_some`: it is to read files
    without live text.
    """

    is_listing: bool
    is_first: bool
    are_some: bool

    @property
    def may_come(self) -> bool:
        """Whether a file without a row or without live text may become searchable."""
        return self.is_listing or self.are_some

    @property
    def have_lines(self) -> bool:
        """Whether to search lines of such files. Later listings find few new files, and may take long."""
        return self.are_some or (self.is_listing and self.is_first)


def read_stored(
    pool: Pool,
    index_id: UUID,
    *,
    excluded_types: Sequence[str] | None,
    below: str | None,
    is_wanted: Callable[[TextFile], bool],
) -> Iterator[tuple[TextFile, list[TextRow]]]:
    """Yield files with live text by folder, each with its pieces in order; not `excluded_types`, only `below`.

    It holds one batch in memory, and a single connection until the last file is taken: users that waited for a second
    connection could wait for each other. Callers limit the number of concurrent calls.
    """
    values = {
        "index_id": index_id,
        "excluded_types": None if excluded_types is None else list(excluded_types),
        "below": below,
    }
    with pool.connection() as connection, connection.cursor(name="stored", row_factory=class_row(TextFile)) as cursor:
        silent_backends.take_time(connection)
        for batch in _batches(filter(is_wanted, cursor.execute(_SQL["stored"], values))):
            texts = snippets.texts(connection, [file.id for file in batch])
            yield from ((file, texts[file.id]) for file in batch if file.id in texts)


def _batches(files: Iterable[TextFile]) -> Iterator[list[TextFile]]:
    """Yield batches limited by number and by bytes; a large file comes alone."""
    batch: list[TextFile] = []
    total = 0
    for file in files:
        if batch and (len(batch) >= _BATCH_FILES or total + file.size_bytes > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(file)
        total += file.size_bytes
    if batch:
        yield batch


def read_listed(pool: Pool, ids: Sequence[UUID]) -> dict[UUID, ListedFile]:
    """Return the files that are listed, by id."""
    with pool.connection() as connection:
        rows = connection.cursor(row_factory=class_row(ListedFile)).execute(_SQL["listed_files"], {"ids": list(ids)})
        return {row.id: row for row in rows}


def read_unfinished(pool: Pool, index_id: UUID, *, below: str | None) -> Iterator[tuple[SourceEntry, ListedFile]]:
    """Yield listed files that have since been neither indexed nor skipped, by path."""
    values: dict[str, object] = {"index_id": index_id, "below": below, "limit": _PAGE_ROWS}
    values |= {"after_path": "", "after_id": UUID(int=0)}
    while True:
        with autocommit(pool) as connection:
            rows = connection.execute(_SQL["unfinished"], values).fetchall()
        for key, path, id_path, node_id, size, mtime_ms, *of_row in rows:
            file = ListedFile(*of_row)
            yield SourceEntry(key, path, id_path, node_id, size, file.stamp, type=file.type, mtime_ms=mtime_ms), file
        if len(rows) < _PAGE_ROWS:
            return
        values |= {"after_path": path, "after_id": file.id}


def waiting(pool: Pool, index_id: UUID, only: Collection[UUID] | None = None) -> WaitingFiles:
    """Return the files of the index, or `only` of some, that words cannot find yet."""
    values = {"index_id": index_id, "most": _MOST_LOOKED_AT, "only": only_of(only)}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["waiting"], values).fetchone()
        return WaitingFiles(*row) if row else WaitingFiles(is_listing=True, is_first=True, are_some=False)


def is_listed(pool: Pool, index_id: UUID) -> bool:
    """Return whether the rows show the whole folder."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["is_listed"], {"index_id": index_id})
