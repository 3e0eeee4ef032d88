"""Filters of a query as the store and Postgres take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from uuid import UUID

from schemas.errors import FilterMatchesNothing
from schemas.search import Filters
from worker.ignore import compiled_glob
from worker.state import Pool, chunks, files, symbols
from worker.state.tools import Index
from worker.vectors import MAX_FILTERABLE_BYTES, Condition

#: Types and languages that a refusal names.
SHOWN = 30


#: Characters of a glob that may stand for others.
_SPECIAL = frozenset("*?[]{}!\\")


class Within(Filters):
    """Filters, and the `file_id_path` values of files and folders that one tool among several is kept to."""

    id_paths: list[str]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Filters with globs and file ids resolved to `file_node_id` values, and id paths to keep to; None: every file.

    `symbol_ids` and `scope_ids` are chunks that hold what is asked for by name, and are named after something else.
    """

    filters: Filters
    file_node_ids: list[str] | None
    id_paths: list[str] | None = None
    symbol_ids: Sequence[UUID] = ()
    scope_ids: Sequence[UUID] = ()

    @property
    def conditions(self) -> list[Condition]:
        """For the vector store."""
        f = self.filters
        lists = {
            "file_node_id": self.file_node_ids,
            "file_type": f.types,
            "language": f.languages,
            "symbol": f.symbols,
            "node_type": f.node_types,
            "level": None if f.level is None else [f.level],
        }
        ids = {"symbol": self.symbol_ids, "scope": self.scope_ids}
        found = [Condition(name, "in", it, ids.get(name, ())) for name, it in lists.items() if it is not None]
        one = {"scope": f.scope, "json_pointer": f.json_pointer}
        prefixes = {name: [value] for name, value in one.items() if value is not None}
        if self.id_paths is not None:
            prefixes["file_id_path"] = self.id_paths
        return found + [Condition(name, "prefix", values, ids.get(name, ())) for name, values in prefixes.items()]

    @property
    def values(self) -> dict[str, Any]:
        """For Postgres."""
        f = self.filters
        return {
            "file_node_ids": self.file_node_ids,
            "id_paths": self.id_paths,
            "symbol_ids": list(self.symbol_ids),
            "scope_ids": list(self.scope_ids),
            "below": None if self.id_paths is None else [f"{path}/" for path in self.id_paths],
            **f.model_dump(include={"types", "languages", "symbols", "node_types", "scope", "json_pointer", "level"}),
        }


def narrow(pool: Pool, index: Index, filters: Filters) -> Narrowed:
    """Resolve paths, file ids and names of definitions.

    Raises `FilterMatchesNothing` where paths and ids select no file with text.
    """
    ids: set[str] | None = None
    if filters.path is not None:
        spec = compiled_glob("path", filters.path)
        near = files.paths(pool, index.id, folder_of(filters.path))
        ids = {node_id for node_id, path in near if spec.match_file(path)}
    if filters.file_ids is not None:
        named = set(files.named(pool, index.id, filters.file_ids))
        ids = named if ids is None else ids & named
    id_paths = filters.id_paths if isinstance(filters, Within) else None
    if id_paths is not None and any(len(path.encode()) >= MAX_FILTERABLE_BYTES for path in id_paths):
        # the store cuts what it filters by: it could not tell such paths from their neighbours
        below = {node_id for path in id_paths for node_id in files.below(pool, index.id, path)}
        ids, id_paths = below if ids is None else ids & below, None
    if ids is not None and not ids:
        _refuse(pool, index, filters)
    return Narrowed(
        filters,
        None if ids is None else sorted(ids),
        id_paths,
        symbols.holding(pool, index.id, filters.symbols) if filters.symbols else (),
        symbols.holding_scope(pool, index.id, filters.scope) if filters.scope else (),
    )


def folder_of(glob: str) -> str:
    """What the paths that a glob matches begin with: the folders that `dir/**` names, "" where it names none."""
    # a slash at the end alone ties a pattern to no place
    folders = glob.removeprefix("/").rstrip("/").split("/")[:-1]
    named = takewhile(lambda name: name not in {"", ".", ".."} and not _SPECIAL & set(name), folders)
    return "".join(f"{name}/" for name in named)


def check_some(pool: Pool, index: Index, narrowed: Narrowed) -> None:
    """Raise `FilterMatchesNothing` unless some chunk passes; asked only when a query found nothing."""
    if narrowed.filters != Filters() and not chunks.any_passes(pool, {**narrowed.values, "index_id": index.id}):
        _refuse(pool, index, narrowed.filters)


def _refuse(pool: Pool, index: Index, filters: Filters) -> None:
    said = ", ".join(f"{name}={value!r}" for name, value in filters.model_dump(exclude_none=True).items())
    hint = _hint(pool, index, filters)
    message = f"No indexed file matches the filters {said}; widen them, or list the tool's files.{hint}"
    raise FilterMatchesNothing(message, hint=hint)


def _hint(pool: Pool, index: Index, filters: Filters) -> str:
    """What types and languages there are, where none of those asked for is among them; "" where one is."""
    if filters.types is None and filters.languages is None:
        return ""
    types, languages = files.kinds(pool, index.id)
    hint = ""
    if filters.types is not None and not set(filters.types) & set(types):
        hint += f" Types here: {_some(types)}; an extension is asked for by path, such as '**/*.py'."
    if filters.languages is not None and not set(filters.languages) & set(languages):
        hint += f" Languages here: {_some(languages)}."
    return hint


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more
