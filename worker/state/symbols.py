"""Rows of `symbol` and `symbol_reference`: what code defines, and which names it uses from where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

from schemas.document import Definition, Reference
from worker.state import Pool, load

_SQL = load("symbols")

#: Behind every other character that a name can have.
_LAST = "\U0010ffff"


def replace(
    connection: Connection[Any],
    index_id: UUID,
    *,
    files: Sequence[UUID],
    found: Iterable[tuple[UUID, Sequence[Definition], Sequence[Reference]]],
) -> None:
    """Make these the definitions and references of `files`; a file that is not among `found` has none any more."""
    if not files:
        return
    connection.execute(_SQL["clear"], {"files": list(files)})
    found = list(found)
    with connection.cursor().copy(_SQL["copy_symbols"]) as copy:
        for file_id, definitions, _ in found:
            for number, d in enumerate(definitions):
                scope = "/".join(d.scope)
                copy.write_row(
                    (file_id, number, index_id, d.name, d.kind, scope, d.start_line, d.end_line, d.signature)
                )
    with connection.cursor().copy(_SQL["copy_references"]) as copy:
        for file_id, _, references in found:
            for number, r in enumerate(references):
                copy.write_row((file_id, number, index_id, r.name, r.kind, "/".join(r.scope), r.line))


def definitions(
    pool: Pool,
    index_id: UUID,
    *,
    name: str | None = None,
    prefix: str | None = None,
    kind: str | None = None,
    after: tuple[str, UUID, int] | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """Definitions of an index by name, then file and place; `after` are name, file and number of the last one seen."""
    after_name, after_file, after_number = after or (None, None, None)
    values = {"index_id": index_id, "name": name, "kind": kind, "limit": limit}
    values |= {"first": prefix, "last": None if prefix is None else prefix + _LAST}
    values |= {"after_name": after_name, "after_file": after_file, "after_number": after_number}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["definitions"], values).fetchall()


def references(
    pool: Pool,
    index_id: UUID,
    *,
    name: str | None = None,
    kind: str | None = None,
    file: UUID | None = None,
    scope: str | None = None,
    after: tuple[UUID, int] | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """Uses of a name (its callers, importers, heirs), or of any name in a file, or in a definition ("outer/inner").

    They come by file and place; `after` are file and number of the last one seen.
    """
    after_file, after_number = after or (None, None)
    values = {"index_id": index_id, "name": name, "kind": kind, "file": file, "scope": scope, "limit": limit}
    values |= {"after_file": after_file, "after_number": after_number}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["references"], values).fetchall()
