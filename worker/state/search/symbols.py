"""Rows of `symbol` and `symbol_use`: the definitions in code, and the uses of names.

`symbol_reference` shows each use as a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from schemas.content.document import CodeDefinition, CodeReference
from schemas.fields import HIDDEN
from schemas.queries.symbol import Symbol, Use
from worker.state.pool import Pool, autocommit
from worker.state.queries import is_true, load, only_of, prepare_for

_SQL = load("search/symbols")

#: Sorts after every other character that a name can have.
_LAST = "\U0010ffff"

#: Maximum number of definitions that `find_named` returns.
_MAX_NAMED = 50

#: Maximum number of definitions of one name, and of one name in its scope, that `find_named` chooses from.
MAX_CONSIDERED = 2000

#: Maximum lines after the first one of a wrapper: a definition whose only call is one of its own name.
_THIN_LINES = 5

#: Maximum UTF-8 bytes of a name, and of a scope: an index row of Postgres holds 2,704, and no search is longer.
_MAX_BYTES = 1000

#: Maximum number of chunks that `holding` returns.
_MAX_HOLDING = 1000

#: Characters that COPY's text format escapes.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_SPECIAL = re.compile(r"[\\\t\n\r]")

_SEPARATOR = re.compile(r"::|->|[./#]")


class SymbolRow(Symbol):
    """A definition, with its number in its file."""

    number: Annotated[int, HIDDEN]


_Row = TypeVar("_Row")


class AddedUse(NamedTuple):
    """A use without a row."""

    file_id: UUID
    kind: str
    scope: str
    line: int


class UseRow(Use):
    """A use of a name, with its number in its file."""

    number: Annotated[int, HIDDEN]


def replace(
    connection: Connection[Any],
    index_id: UUID,
    *,
    files: Sequence[UUID],
    file_symbols: Iterable[tuple[UUID, Sequence[CodeDefinition], Sequence[CodeReference]]],
) -> None:
    """Replace the definitions and references of `files`; a file missing from `file_symbols` loses its own."""
    if not files:
        return
    connection.execute(_SQL["clear"], {"files": list(files)})
    file_symbols = list(file_symbols)
    with connection.cursor().copy(_SQL["copy_symbols"]) as copy:
        for file_id, definitions, _ in file_symbols:
            copy.write(_definition_lines(file_id, index_id, definitions))
    with connection.cursor().copy(_SQL["copy_uses"]) as copy:
        for file_id, _, references in file_symbols:
            copy.write(_use_lines(file_id, index_id, references))


def _definition_lines(file_id: UUID, index_id: UUID, definitions: Iterable[CodeDefinition]) -> str:
    """Yield the COPY rows of one file's definitions: psycopg takes twice as long to build them."""
    fields, file, index = _CopyFields(), str(file_id), str(index_id)
    lines: list[str] = []
    for d in definitions:
        name, scope = fields[d.name], fields["/".join(d.scope)]
        if name is not None and scope is not None:
            place = f"{d.start_line}\t{d.end_line}\t{_escaped(d.signature)}"
            lines.append(f"{file}\t{len(lines)}\t{index}\t{name}\t{d.kind}\t{scope}\t{place}\n")
    return "".join(lines)


def _use_lines(file_id: UUID, index_id: UUID, references: Iterable[CodeReference]) -> str:
    """Yield a COPY row for each name that a file uses, with its uses as arrays."""
    fields, scopes, file, index = _CopyFields(), _CopyScopes(), str(file_id), str(index_id)
    by_name: dict[str, list[tuple[str, str, str, str]]] = {}
    number = 0
    for used, kind, scope_names, line in references:
        name, scope = fields[used], scopes[scope_names]
        if name is not None and scope is not None:
            by_name.setdefault(name, []).append((str(number), kind, scope, str(line)))
            number += 1
    lines = []
    for name, uses in by_name.items():
        # most names are used once
        columns = uses[0] if len(uses) == 1 else map(",".join, zip(*uses, strict=True))
        arrays = "}\t{".join(columns)
        lines.append(f"{file}\t{name}\t{index}\t{{{arrays}}}\n")
    return "".join(lines)


class _CopyFields(dict[str, str | None]):
    """Names and scopes as COPY reads them, each encoded once per file; None if one is too long for an index."""

    def __missing__(self, text: str) -> str | None:
        self[text] = field = _escaped(text) if len(text.encode()) <= _MAX_BYTES else None
        return field


class _CopyScopes(dict[tuple[str, ...], str | None]):
    """Scopes as items of a COPY array, each encoded once per file; None if one is too long."""

    def __missing__(self, names: tuple[str, ...]) -> str | None:
        scope = "/".join(names)
        item = scope.replace("\\", r"\\").replace('"', r"\"")
        self[names] = field = _escaped(f'"{item}"') if len(scope.encode()) <= _MAX_BYTES else None
        return field


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def definitions(
    pool: Pool,
    index_id: UUID,
    *,
    name: str | None = None,
    prefix: str | None = None,
    kind: str | None = None,
    only: Sequence[UUID] | None = None,
    after: tuple[str, str, str, UUID, int] | None = None,
    limit: int,
) -> list[SymbolRow]:
    """Return an index's definitions by name, path and position; a qualified name (`Foo.run`) means that scope.

    `after` holds name, path, id path, file and number of the last row of the previous page.
    """
    scope, last = ("", None) if name is None else qualified(name)
    values: dict[str, object] = {"index_id": index_id, "name": last, "scope": scope, "kind": kind, "limit": limit}
    values["only"] = only_of(only)
    values |= {"first": prefix, "last": None if prefix is None else prefix + _LAST}
    names = ("after_name", "after_path", "after_id_path", "after_file", "after_number")
    values |= dict(zip(names, after or (None,) * len(names), strict=True))
    return _rows(pool, SymbolRow, "definitions", values)


def outline(
    pool: Pool,
    index_id: UUID,
    *,
    path: str | None,
    only: Sequence[UUID] | None = None,
    after: tuple[str, str, UUID, int] | None = None,
    limit: int,
) -> list[SymbolRow]:
    """Return the definitions of a file, of the files below a folder, or of all, by path and position.

    `after` holds path, id path, file and number of the last row of the previous page.
    """
    values: dict[str, object] = {"index_id": index_id, "path": path, "only": only_of(only), "limit": limit}
    places = ("after_path", "after_id_path", "after_file", "after_number")
    values |= dict(zip(places, after or (None,) * len(places), strict=True))
    return _rows(pool, SymbolRow, "outline", values)


def _rows(pool: Pool, row: type[_Row], query: str, values: Mapping[str, object]) -> list[_Row]:
    prepare = prepare_for(values["only"])
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(row)).execute(_SQL[query], values, prepare=prepare).fetchall()


def has_path(pool: Pool, index_id: UUID, path: str, only: Collection[UUID] | None) -> bool:
    """Return whether a file of the index has this path, or is below it; `only` one of these."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["has_path"], {"index_id": index_id, "path": path, "only": only_of(only)})


def references(
    pool: Pool,
    index_id: UUID,
    *,
    name: str | None = None,
    kind: str | None = None,
    file: UUID | None = None,
    scope: str | None = None,
    added: Sequence[AddedUse] = (),
    only: Sequence[UUID] | None = None,
    after: tuple[str, str, UUID, int, int] | None = None,
    limit: int,
) -> list[UseRow]:
    """Return uses of a name (callers, importers, subclasses), or of any name in a file or definition ("outer/inner").

    If no use has the spelling of a qualified name, the uses of its last part are returned, in any scope. They are
    ordered by path and line, together with the `added` uses; `after` holds path, id path, file, line and number of the
    last row of the previous page.
    """
    last = None if name is None else qualified(name)[1]
    values: dict[str, object] = {
        "index_id": index_id,
        "name": name,
        "last": last,
        "kind": kind,
        "file": file,
        "scope": scope,
        "only": only_of(only),
        "limit": limit,
    }
    values |= {f"added_{name}": [getattr(use, name) for use in added] for name in AddedUse._fields}
    places = ("after_path", "after_id_path", "after_file", "after_line", "after_number")
    values |= dict(zip(places, after or (None,) * len(places), strict=True))
    return _rows(pool, UseRow, "references", values)


def find_named(
    pool: Pool, index_id: UUID, names: Sequence[str], only: Collection[UUID] | None = None
) -> list[tuple[UUID, int, int, str, str]]:
    """Return (file, first line, last line, name, kind) of up to 50 definitions, `only` of some files.

    The names take turns.

    For each name, exact spellings are preferred to another case. A name may be qualified (`Foo.run`, `Foo::run`,
    `Foo/run`): then definitions in that scope are preferred to any others, because `json` in `json.loads` may be a
    file. Thin wrappers are left out, unless all are.
    """
    qualified_names = [qualified(name) for name in dict.fromkeys(names)]
    values = {
        "index_id": index_id,
        "names": [name for _, name in qualified_names],
        "scopes": [scope for scope, _ in qualified_names],
    }
    values |= {"limit": _MAX_NAMED, "considered": MAX_CONSIDERED, "thin": _THIN_LINES, "only": only_of(only)}
    with autocommit(pool) as connection:
        return list(dict.fromkeys(connection.execute(_SQL["named"], values, prepare=prepare_for(only))))


def holding(pool: Pool, index_id: UUID, names: Sequence[str], only: Collection[UUID] | None = None) -> list[UUID]:
    """Return chunks that contain the start of a definition of one of the names, but have another name or none.

    Returns at most 1000, from the first 2000 definitions. The names share both limits.
    """
    return _starting_chunks(pool, index_id, names, None, only)


def holding_scope(pool: Pool, index_id: UUID, path: str, only: Collection[UUID] | None = None) -> list[UUID]:
    """Return chunks that contain the start of the definition with this path ("outer/inner"), limited like `holding`."""
    scope, _, name = path.rpartition("/")
    return _starting_chunks(pool, index_id, [name], scope, only)


def _starting_chunks(
    pool: Pool, index_id: UUID, names: Sequence[str], scope: str | None, only: Collection[UUID] | None
) -> list[UUID]:
    considered = max(1, MAX_CONSIDERED // len(names))
    values: dict[str, object] = {"index_id": index_id, "names": list(names), "scope": scope, "considered": considered}
    values |= {"limit": _MAX_HOLDING, "only": only_of(only)}
    with autocommit(pool) as connection:
        found = connection.execute(_SQL["starting_chunks"], values, prepare=prepare_for(only))
        return [id_ for (id_,) in found]


def qualified(name: str) -> tuple[str, str]:
    """Split a name into scope ("outer/inner", or "") and name; with an empty part it is one unqualified name."""
    *scope, last = parts = _SEPARATOR.split(name)
    return ("/".join(scope), last) if all(parts) else ("", name)
