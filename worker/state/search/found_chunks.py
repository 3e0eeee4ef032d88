"""Live rows of `chunk` for searches: their columns in answers, and filters over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self
from uuid import UUID

from worker.reading import applied, as_read, full
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load, only_of, storable, text_array
from worker.state.search.snippets import TextRow

_SQL = load("search/found_chunks")


# a query reads a hundred, and creating a dataclass takes several times as long
class HitRow(NamedTuple):
    """The columns of a live chunk that an answer shows, in their order, with its version.

    `read_text` is its text in readable form; None if the stored text is already readable.
    """

    chunk_id: str
    version: str
    chunk_text: str
    file_node_id: str
    file_id: UUID
    file_id_path: str
    file_path: str
    file_type: str | None
    title: str | None
    json_pointer: str | None
    chunk_index: int
    total_chunks: int
    content_hash: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    language: str | None
    context: str
    symbol: str | None
    node_type: str | None
    scope: str | None
    level: int
    page: int | None
    embedded: bool
    stale: bool
    url: str | None
    metadata: Mapping[str, object] | None = None
    read_text: str | None = None

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Self:
        """Return the row with these columns."""
        row = cls(*columns)
        read = as_read(row.file_type, row.chunk_text)
        return row if read is None else row._replace(read_text=read)

    @property
    def ranked_text(self) -> str:
        """The text by which the chunk is ranked."""
        return self.chunk_text if self.read_text is None else self.read_text

    @property
    def place(self) -> tuple[str, str, int]:
        """The chunk's location: its file's path, the id path that distinguishes files with one path, and its position.

        It orders equal hits instead of ids, so that equal folders give equal answers.
        """
        return self.file_path, self.file_id_path, self.chunk_index


def hits(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, HitRow]:
    """Return the answer columns of live chunks; ids without a live row are omitted."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        cursor = connection.cursor(binary=True).execute(_SQL["hits"], values)
        return {columns[0]: HitRow.of(columns) for columns in cursor.fetchall()}


def newer_hits(
    pool: Pool, index_id: UUID, ids: Sequence[str], known: Sequence[str]
) -> tuple[dict[str, str], dict[str, HitRow]]:
    """Return the versions of live chunks, and the `hits` of chunks whose known version ("" if none) is outdated.

    Both are of the same moment.
    """
    values = {"ids": text_array(ids), "known": text_array(f'"{version}"' for version in known), "index_id": index_id}
    with autocommit(pool) as connection:
        rows = connection.cursor(binary=True).execute(_SQL["newer_hits"], values).fetchall()
    # the text is null only if the version is known
    newer = {columns[0]: HitRow.of(columns) for columns in rows if columns[2] is not None}
    return {id_: version for id_, version, *_ in rows}, newer


def versions(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, str]:
    """Return the versions of live chunks. As long as one stays the same, so does the chunk's row of `hits`."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["versions"], values).fetchall())


def is_without_lists(version: str) -> bool:
    """Return whether the project had no access list at all when this version of a row was read."""
    return not version.endswith(" lists")


def file_ids(pool: Pool, index_id: UUID, ids: Iterable[str]) -> dict[str, UUID]:
    """Return the files of live chunks; ids without a live row are omitted."""
    values = {"ids": text_array(ids), "index_id": index_id}
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["file_ids"], values).fetchall())


def with_phrase(pool: Pool, index_id: UUID, ids: Iterable[str], phrase: str) -> set[str]:
    """Return the live chunks that contain a phrase in lower case, with any white space between its words.

    Both the stored text and its readable form are searched.
    """
    normal = " ".join(storable(phrase.lower()).split())
    with autocommit(pool) as connection:
        values = {"ids": text_array(ids), "index_id": index_id, "phrase": normal}
        found = connection.execute(_SQL["with_phrase"], values).fetchall()
    return {id_ for id_, type_, text in found if text is None or normal in _normal_reading(type_, text)}


def _normal_reading(type_: str | None, text: str) -> str:
    return " ".join(applied(text, full(type_, text)).lower().split())


def any_live(pool: Pool, index_id: UUID, only: Collection[UUID] | None = None) -> bool:
    """Return whether any text of the index, or `only` of some of its files, is searchable."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_live"], {"index_id": index_id, "only": only_of(only)})


def containing_lines(pool: Pool, places: Sequence[tuple[UUID, int]]) -> list[str]:
    """Return the live chunks that contain these lines of these files."""
    values = {"files": [file_id for file_id, _ in places], "lines": [line for _, line in places]}
    with autocommit(pool) as connection:
        return [id_ for (id_,) in connection.execute(_SQL["containing_lines"], values)]


def passing(pool: Pool, ids: Sequence[str], values: dict[str, object]) -> list[str]:
    """Return the given live chunks that pass the filters."""
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["passing"], {**values, "ids": list(ids)})
        return [id_ for (id_,) in rows]


def find_unembedded(pool: Pool, values: dict[str, object]) -> list[tuple[UUID, int]]:
    """Return files without vectors that pass the filters, by path: id, and characters of the whole text."""
    with pool.connection() as connection:
        return connection.execute(_SQL["unembedded"], values).fetchall()


def whole(pool: Pool, files: Sequence[UUID]) -> list[tuple[HitRow, TextRow]]:
    """Return the chunks of whole files, in order, each also with the texts around it."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["whole"], {"files": list(files)}).fetchall()
    return [_with_text(HitRow(*columns), lead, trail) for *columns, lead, trail in rows]


def _with_text(row: HitRow, lead: str, trail: str) -> tuple[HitRow, TextRow]:
    place = (row.start_char, row.end_char, row.start_line, row.json_pointer)
    return row, TextRow(row.chunk_text, lead, trail, *place)


def any_passes(pool: Pool, values: dict[str, object]) -> bool:
    """Return whether any live chunk passes the filters."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["any_passes"], values)
