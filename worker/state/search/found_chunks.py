"""Live rows of `chunk`, as searches read them: what an answer shows of them, and which of them pass the filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from worker.reading import applied, as_read, full
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load, storable, text_array

_SQL = load("search/found_chunks")


def hits(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what an answer shows of live chunks; ids without a live row are omitted."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=dict_row, binary=True)
        return {row["chunk_id"]: _with_reading(row) for row in cursor.execute(_SQL["hits"], values).fetchall()}


def _with_reading(row: dict[str, Any]) -> dict[str, Any]:
    """Add the text as it is read, by which a chunk is ranked; None if it is read as it is written."""
    row["read_text"] = as_read(row["file_type"], row["chunk_text"])
    return row


def newer_hits(
    pool: Pool, index_id: UUID, ids: Sequence[str], known: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the versions of live chunks, and the `hits` of those whose version is not the known one ("" if none is).

    Both are of the same moment.
    """
    values = {"ids": text_array(ids), "known": text_array(f'"{version}"' for version in known), "index_id": index_id}
    with autocommit(pool) as connection:
        cursor = connection.cursor(binary=True).execute(_SQL["newer_hits"], values)
        rows, names = cursor.fetchall(), [column.name for column in cursor.description or ()]
    # the text is null only if the version is known
    newer = {row[0]: _with_reading(dict(zip(names, row, strict=True))) for row in rows if row[2] is not None}
    return {row[0]: row[1] for row in rows}, newer


def versions(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, str]:
    """Return the versions of live chunks. As long as one stays the same, so does the chunk's row of `hits`."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["versions"], values).fetchall())


def file_ids(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, UUID]:
    """Return the files of live chunks; ids without a live row are omitted."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["file_ids"], values).fetchall())


def with_phrase(pool: Pool, index_id: UUID, ids: Iterable[str], phrase: str) -> set[str]:
    """Return those of the live chunks that hold a phrase in lower case, whatever the white space between its words.

    It may stand there as it is written or as it is read.
    """
    normal = " ".join(storable(phrase.lower()).split())
    with autocommit(pool) as connection:
        values = {"ids": text_array(ids), "index_id": index_id, "phrase": normal}
        found = connection.execute(_SQL["with_phrase"], values).fetchall()
    return {id_ for id_, type_, text in found if text is None or normal in _normal_reading(type_, text)}


def _normal_reading(type_: str | None, text: str) -> str:
    return " ".join(applied(text, full(type_, text)).lower().split())


def any_live(pool: Pool, index_id: UUID) -> bool:
    """Whether any text of the index can be found."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_live"], {"index_id": index_id})


def containing_lines(pool: Pool, places: Sequence[tuple[UUID, int]]) -> list[str]:
    """Return the live chunks that contain these lines of these files."""
    values = {"files": [file_id for file_id, _ in places], "lines": [line for _, line in places]}
    with autocommit(pool) as connection:
        return [id_ for (id_,) in connection.execute(_SQL["containing_lines"], values)]


def passing(pool: Pool, ids: Sequence[str], values: dict[str, object]) -> list[str]:
    """Return those of the given live chunks that pass the filters."""
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["passing"], {**values, "ids": list(ids)})
        return [id_ for (id_,) in rows]


def unembedded(pool: Pool, values: dict[str, object]) -> list[tuple[UUID, int]]:
    """Return files found by words only that pass the filters, by path: id, and characters of the whole text."""
    with pool.connection() as connection:
        return connection.execute(_SQL["unembedded"], values).fetchall()


def whole(pool: Pool, files: Sequence[UUID]) -> list[dict[str, Any]]:
    """Return the chunks of whole files, in order, with the texts between them."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["whole"], {"files": list(files)}).fetchall()


def any_passes(pool: Pool, values: dict[str, object]) -> bool:
    """Whether any live chunk passes the filters."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["any_passes"], values)
