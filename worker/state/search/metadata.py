"""Metadata of the files of an index, as it holds now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load

#: Maximum files whose values are counted.
MAX_COUNTED_FILES = 100_000

#: Rows that are held at a time. Each has up to 16 KiB of values, and the ids of its files.
_BATCH_ROWS = 500

_SQL = load("search/metadata")


@dataclass(frozen=True, slots=True)
class MetadataState:
    """Equal as long as neither values nor files of an index changed. While a task is open, files may change."""

    version: int
    task_id: UUID | None
    finished_at: datetime | None

    @property
    def is_at_rest(self) -> bool:
        """Whether no task is open."""
        return self.finished_at is not None


class CountedKey(NamedTuple):
    """How many files have a value of the declared type, how many another one, and the files of frequent values."""

    files: int
    mistyped_files: int
    values: Sequence[tuple[str | int | float | bool, int]]


#: Those of a key that no file has.
NO_COUNTS = CountedKey(0, 0, ())


def counted(
    pool: Pool, index_id: UUID, declared: Mapping[str, str], most_values: int, time_pattern: str
) -> tuple[dict[str, CountedKey], bool]:
    """Return the counts by key, and whether no file was left out of `MAX_COUNTED_FILES`."""
    values: dict[str, object] = {"index_id": index_id, "keys": [*declared], "kinds": [*declared.values()]}
    values |= {"most_files": MAX_COUNTED_FILES, "most_values": most_values, "time": time_pattern}
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["counted"], values).fetchall()
        is_whole = is_true(connection, _SQL["is_counted_whole"], values)
    return {key: CountedKey(*columns) for key, *columns in rows}, is_whole


def state(pool: Pool, index_id: UUID) -> MetadataState:
    """Return the state of an index's metadata."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(MetadataState))
        return cursor.execute(_SQL["state"], {"index_id": index_id}).fetchone() or MetadataState(0, None, None)


def files_by_values(pool: Pool, index_id: UUID, keys: Sequence[str]) -> Iterator[tuple[list[Any], list[UUID]]]:
    """Yield the distinct combinations of values of these keys, None for no value, each with its listed files."""
    return _by_values(pool, "files_by_values", index_id, keys)


def nodes_by_values(pool: Pool, index_id: UUID, keys: Sequence[str]) -> Iterator[tuple[list[Any], list[str]]]:
    """As `files_by_values`, each with the `file_node_id` of its files with live chunks."""
    return _by_values(pool, "nodes_by_values", index_id, keys)


def _by_values(pool: Pool, query: str, index_id: UUID, keys: Sequence[str]) -> Iterator[tuple[list[Any], list[Any]]]:
    # the values of all files together may be larger than the memory
    with pool.connection() as connection, connection.cursor(name="values") as cursor:
        cursor.itersize = _BATCH_ROWS
        yield from cursor.execute(_SQL[query], {"index_id": index_id, "keys": list(keys)})
