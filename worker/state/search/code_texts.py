"""The text, definitions and paths of code, for following names through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg.errors import QueryCanceled
from psycopg.rows import args_row

from worker.state.pool import Pool
from worker.state.queries import load, only_of
from worker.state.search import snippets
from worker.state.search.snippets import TextRow

#: Maximum seconds for searching all texts of an index.
TIMEOUT_SECONDS = 5

_SQL = load("search/code_texts")

#: The files to consider; None: the whole index.
Only = Sequence[UUID] | None


class CodeFile(NamedTuple):
    """A file of code."""

    id: UUID
    path: str
    language: str | None


class KnownLine(NamedTuple):
    """A line that rows record for a name: a use of it, or the beginning of a definition."""

    file_id: UUID
    line: int
    is_definition: bool


class Defined(NamedTuple):
    """A definition, with the columns of its row."""

    file_id: UUID
    number: int
    name: str
    kind: str
    scope: str
    start_line: int
    end_line: int
    signature: str

    @property
    def path(self) -> str:
        """Its scope and its name."""
        return f"{self.scope}/{self.name}" if self.scope else self.name


def containing(
    pool: Pool, index_id: UUID, name: str, limit: int, *, without: Iterable[str] = (), only: Only = None
) -> list[CodeFile] | None:
    """Return code files whose text contains a name, by path, `without` files in some languages.

    None if searching all texts takes too long.
    """
    values: dict[str, object] = {"index_id": index_id, "name": name, "limit": limit, "only": only_of(only)}
    values["without"] = list(without)
    values["milliseconds"] = str(1000 * TIMEOUT_SECONDS)
    with pool.connection() as connection:
        try:
            with connection.transaction():
                connection.execute(_SQL["bounds"], values)
                return connection.cursor(row_factory=args_row(CodeFile)).execute(_SQL["containing"], values).fetchall()
        except QueryCanceled:
            return None


def read_files(pool: Pool, ids: Iterable[UUID]) -> list[CodeFile]:
    """Return files by their ids."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=args_row(CodeFile))
        return cursor.execute(_SQL["languages"], {"ids": list(ids)}).fetchall()


def read_texts(pool: Pool, ids: Iterable[UUID], max_bytes: int) -> dict[UUID, list[TextRow]]:
    """Return the live text of files, up to `max_bytes` in total."""
    with pool.connection() as connection:
        return snippets.texts(connection, ids, max_bytes)


def known_lines(pool: Pool, index_id: UUID, name: str, ids: Sequence[UUID]) -> list[KnownLine]:
    """Return the lines of files that rows record for a name."""
    values = {"index_id": index_id, "name": name, "ids": list(ids)}
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(KnownLine)).execute(_SQL["stored_uses"], values).fetchall()


def root_name(pool: Pool, index_id: UUID) -> str:
    """Return the name of the folder of an index; "" if it has none."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["root_name"], {"index_id": index_id}).fetchone()
    return str(row[0]) if row else ""


def outlines(pool: Pool, ids: Iterable[UUID]) -> dict[UUID, list[Defined]]:
    """Return the definitions of files, outer ones first."""
    found: dict[UUID, list[Defined]] = {}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=args_row(Defined))
        for row in cursor.execute(_SQL["outlines"], {"ids": list(ids)}):
            found.setdefault(row.file_id, []).append(row)
    return found


class CalledName(NamedTuple):
    """A call: its place, and the name that it calls."""

    file_id: UUID
    line: int
    name: str
    scope: str


def bases(pool: Pool, ids: Iterable[UUID]) -> dict[UUID, dict[str, list[str]]]:
    """Return the names from which the classes of files inherit, by the path of the class."""
    found: dict[UUID, dict[str, list[str]]] = {}
    with pool.connection() as connection:
        for file_id, scope, name in connection.execute(_SQL["bases"], {"ids": list(ids)}):
            found.setdefault(file_id, {}).setdefault(scope, []).append(name)
    return found


def named(
    pool: Pool, index_id: UUID, name: str, limit: int, *, scope: str = "", file: UUID | None = None, only: Only = None
) -> list[Defined]:
    """Return definitions of a name, in a scope (its end suffices: "inner" of "outer/inner") or a file, by path."""
    values = {"index_id": index_id, "name": name, "scope": scope, "file": file, "limit": limit, "only": only_of(only)}
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(Defined)).execute(_SQL["named"], values).fetchall()


def at_paths(pool: Pool, index_id: UUID, paths: Sequence[str], *, only: Only = None) -> dict[str, UUID]:
    """Return the files that have these paths."""
    with pool.connection() as connection:
        rows = connection.execute(_SQL["at_paths"], {"index_id": index_id, "paths": list(paths), "only": only_of(only)})
        return {path: file_id for file_id, path in rows}


def calls_of(pool: Pool, index_id: UUID, names: Sequence[str], limit: int, *, only: Only = None) -> list[CalledName]:
    """Return the calls of names."""
    values = {"index_id": index_id, "names": list(names), "limit": limit, "only": only_of(only)}
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(CalledName)).execute(_SQL["calls_of"], values).fetchall()


def importing(
    pool: Pool, index_id: UUID, names: Sequence[str], modules: Sequence[str], limit: int, *, only: Only = None
) -> list[UUID]:
    """Return files that import one of these modules, or that may import one of the names under an alias."""
    values = {
        "index_id": index_id,
        "names": list(names),
        "modules": list(modules),
        "limit": limit,
        "only": only_of(only),
    }
    with pool.connection() as connection:
        return [id_ for (id_,) in connection.execute(_SQL["importing"], values)]


def calls_by(pool: Pool, index_id: UUID, wanted: Sequence[tuple[UUID, str]]) -> list[CalledName]:
    """Return the calls of names, each in one file."""
    files, names = zip(*wanted, strict=True)
    values = {"index_id": index_id, "files": list(files), "names": list(names)}
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(CalledName)).execute(_SQL["calls_by"], values).fetchall()


def calls_in(pool: Pool, definitions: Sequence[Defined], limit: int) -> list[CalledName]:
    """Return the calls in definitions, including nested ones."""
    values = {
        "files": [each.file_id for each in definitions],
        "paths": [each.path for each in definitions],
        "first": [each.start_line for each in definitions],
        "last": [each.end_line for each in definitions],
        "limit": limit,
    }
    with pool.connection() as connection:
        return connection.cursor(row_factory=args_row(CalledName)).execute(_SQL["calls_in"], values).fetchall()
