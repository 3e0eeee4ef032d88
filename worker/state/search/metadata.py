"""The current metadata of an index's files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from schemas.queries.metadata import MetadataSource, MetadataView
from worker.state.connections import be_patient
from worker.state.pool import Pool, autocommit
from worker.state.queries import load, only_of

#: Maximum number of rows held at a time. Each has up to 16 KiB of values, and the ids of its files.
_BATCH_ROWS = 500
#: Maximum number of paths held at a time.
_BATCH_PATHS = 10_000

_SQL = load("search/metadata")


@dataclass(frozen=True, slots=True)
class Held:
    """Values of some keys in their order, None for no value, and the listed files that have them.

    A value that only a file states, and no node, is `{"stated": value}`: its type is not yet the declared one. `path`
    is set if rules need it. `node_ids` are the `file_node_id` of files with live chunks.
    """

    values: list[Any]
    path: str | None
    files: list[UUID]
    node_ids: list[str]


@dataclass(frozen=True, slots=True)
class MetadataState:
    """A state that is equal while neither values nor files of an index change. Files may change during an open task."""

    version: int
    task_id: UUID | None
    finished_at: datetime | None

    @property
    def is_at_rest(self) -> bool:
        """Whether no task is open."""
        return self.finished_at is not None


def state(pool: Pool, index_id: UUID) -> MetadataState:
    """Return the state of an index's metadata."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(MetadataState))
        return cursor.execute(_SQL["state"], {"index_id": index_id}).fetchone() or MetadataState(0, None, None)


def files_by_values(
    pool: Pool, index_id: UUID, keys: Sequence[str], view: MetadataView, only: Collection[UUID] | None = None
) -> Iterator[Held]:
    """Yield the distinct combinations of values of these keys, each with its files, or with `only` some files.

    If rules decide by path, each path comes with its own values.
    """
    values: dict[str, object] = {"index_id": index_id, "keys": list(keys), "by_path": bool(view.rules)}
    values |= {"sources": list(view.sources), "only": only_of(only)}
    # the values of all files together may be larger than the memory
    with pool.connection() as connection, connection.cursor(name="values") as cursor:
        cursor.itersize = _BATCH_ROWS
        # the first row comes once the values of all files are grouped
        be_patient(connection)
        for columns in cursor.execute(_SQL["files_by_values"], values):
            yield Held(*columns)


def paths(pool: Pool, index_id: UUID) -> Iterator[str]:
    """Yield the paths of the files of an index, in any order."""
    with pool.connection() as connection, connection.cursor(name="paths") as cursor:
        cursor.itersize = _BATCH_PATHS
        be_patient(connection)
        for (path,) in cursor.execute(_SQL["paths"], {"index_id": index_id}):
            yield path


def stated(pool: Pool, file_ids: Sequence[UUID], sources: Sequence[MetadataSource]) -> dict[UUID, dict[str, object]]:
    """Return the metadata of files from these sources."""
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["stated"], {"files": list(file_ids), "sources": list(sources)}).fetchall())
