"""Rows of `chunk` as passages of their files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row, class_row

from schemas.queries.search import ListedChunk, Piece
from worker.state.pool import Pool
from worker.state.queries import load

_SQL = load("search/snippets")


class TextRow(NamedTuple):
    """A chunk's text, the text before and after it, and its location in the file."""

    chunk_text: str
    lead: str
    trail: str
    start_char: int
    end_char: int
    start_line: int
    json_pointer: str | None


class ShownChunk(NamedTuple):
    """A chunk as it was read; `place` is its chunk_index."""

    id: UUID
    place: int
    start_char: int


def neighbours(
    pool: Pool, index_id: UUID, stretches: Sequence[tuple[UUID, Sequence[ShownChunk]]], *, before: int, after: int
) -> list[tuple[list[Piece], list[Piece]]]:
    """Return the live chunks before and after each stretch (a file, and its shown chunks), in the file's order.

    Returns none for a stretch without chunks, or for a file that changed since they were read, so that old text never
    appears beside new text.
    """
    around: list[tuple[list[Piece], list[Piece]]] = [([], []) for _ in stretches]
    if not stretches or before == after == 0:
        return around
    with pool.connection() as connection:
        values = {**_places(stretches), "index_id": index_id, "before": before, "after": after}
        for place, is_before, *columns in connection.execute(_SQL["neighbours"], values):
            piece = Piece(**dict(zip(Piece.model_fields, columns, strict=True)))
            around[place - 1][0 if is_before else 1].append(piece)
    return around


def _places(stretches: Sequence[tuple[UUID, Sequence[ShownChunk]]]) -> dict[str, object]:
    indexes = [[chunk.place for chunk in chunks] for _, chunks in stretches]
    rows = [(file, *chunk) for file, chunks in stretches for chunk in chunks]
    return {
        "files": [file for file, _ in stretches],
        "first": [min(of_file, default=None) for of_file in indexes],
        "last": [max(of_file, default=None) for of_file in indexes],
        **{name: [row[column] for row in rows] for column, name in enumerate(("of", "ids", "indexes", "starts"))},
    }


def lines(pool: Pool, file_id: UUID, first: int, last: int | None) -> list[TextRow]:
    """Return a file's live chunks with any of these lines (from 1, inclusive) in or around them, in order."""
    values = {"file": file_id, "first": first, "last": last}
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(TextRow)).execute(_SQL["lines"], values).fetchall()


def page(pool: Pool, file_id: UUID, *, after: tuple[int, UUID] | None, limit: int) -> list[ListedChunk]:
    """List a file's live chunks by their index and id."""
    index, id_ = after or (None, None)
    values = {"file": file_id, "after_index": index, "after_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(ListedChunk)).execute(_SQL["page"], values).fetchall()


def count_lines(pool: Pool, file_id: UUID) -> int:
    """Count the lines of a file's text; 0 if no chunk is live."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["line_count"], {"file": file_id}).fetchone()
    return int(row[0] or 0) if row else 0


def text(pool: Pool, file_id: UUID) -> list[TextRow]:
    """Return the texts of a file's live chunks and the texts between them, in order."""
    with pool.connection() as connection:
        return texts(connection, [file_id]).get(file_id, [])


def texts(connection: Connection[Any], ids: Iterable[UUID], max_bytes: int | None = None) -> dict[UUID, list[TextRow]]:
    """Return the live text of files as `text` does; of the first files that together have at most `max_bytes`."""
    pieces: dict[UUID, list[TextRow]] = defaultdict(list)
    for file_id, *columns in connection.execute(_SQL["texts"], {"ids": list(ids), "bytes": max_bytes}):
        pieces[file_id].append(TextRow(*columns))
    return dict(pieces)
