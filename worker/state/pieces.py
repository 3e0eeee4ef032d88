"""Rows of `chunk` as stretches of their file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from worker.state import Pool, load

_SQL = load("pieces")

Row = dict[str, Any]


def neighbours(
    pool: Pool, index_id: UUID, stretches: Sequence[tuple[UUID, int, int]], *, before: int, after: int
) -> list[tuple[list[Row], list[Row]]]:
    """The live chunks before and behind each stretch (file, first and last chunk_index), in the file's order."""
    values: Row = {"index_id": index_id, "before": before, "after": after}
    values |= dict(zip(("files", "first", "last"), map(list, zip(*stretches, strict=True)), strict=False))
    found: list[tuple[list[Row], list[Row]]] = [([], []) for _ in stretches]
    if not stretches or before == after == 0:
        return found
    with pool.connection() as connection:
        for row in connection.cursor(row_factory=dict_row).execute(_SQL["neighbours"], values):
            ahead, behind = found[row["place"] - 1]
            (ahead if row["is_before"] else behind).append(row)
    return found


def lines(pool: Pool, file_id: UUID, first: int, last: int | None) -> list[Row]:
    """The live chunks of a file that have any of these lines (from 1, inclusive) in or around them, in order."""
    values = {"file": file_id, "first": first, "last": last}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["lines"], values).fetchall()


def line_count(pool: Pool, file_id: UUID) -> int:
    """Lines of a file's text, 0 if none of it is live."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["line_count"], {"file": file_id}).fetchone()
    return int(row[0] or 0) if row else 0
