"""Measures by stamps how far an index's rows lag behind its folder; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from schemas.content.document import SourceEntry
from worker.state.index.files import file_id, fitting
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("search/freshness")


@dataclass(frozen=True, slots=True)
class ListingComparison:
    """Numbers of a page's files.

    `unseen` changed or appeared since the last listing, `open` are being worked on, `known` have a row.
    """

    unseen: int
    open: int
    known: int


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Files of an index that are not removed; `going` are files listed as vanished whose removal is open."""

    known: int
    going: int


def compare(pool: Pool, index_id: UUID, entries: Sequence[SourceEntry], wanted: Sequence[bool]) -> ListingComparison:
    """Compare a page of the folder's listing with the rows; `wanted` selects the entries that the index would take."""
    values = {
        "ids": [file_id(index_id, entry.key) for entry in entries],
        "wanted": list(wanted),
        "paths": [fitting(entry.path) for entry in entries],
        "id_paths": [entry.id_path for entry in entries],
        "sizes": [entry.size for entry in entries],
        "stamps": [entry.stamp for entry in entries],
        "mtimes": [entry.mtime_ms for entry in entries],
    }
    with autocommit(pool) as connection:
        row = connection.cursor(row_factory=class_row(ListingComparison)).execute(_SQL["compare"], values).fetchone()
    return row or ListingComparison(0, 0, 0)


def count_rows(pool: Pool, index_id: UUID, unlisted: Sequence[bytes]) -> FileCounts:
    """Count the files that a complete listing should show; `unlisted` are prefixes that could not be listed."""
    values = {"index_id": index_id, "unlisted": list(unlisted)}
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(FileCounts)).execute(
            _SQL["known"], values
        ).fetchone() or FileCounts(0, 0)
