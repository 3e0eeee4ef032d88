"""Converts a query's filters for the vector store and Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from api.search.query.file_filter import Chosen, choose, types_of
from schemas.errors import FilterMatchesNothing
from schemas.search import Filters
from worker.state.index import chunks, files
from worker.state.index.tools import Index
from worker.state.postgres import Pool
from worker.state.search import symbols
from worker.vectors import MAX_FILTERABLE_BYTES, Condition

#: Maximum types or languages that an error lists.
SHOWN = 30
#: Maximum characters of a filter's value in an error.
MOST_SAID = 200


class Within(Filters):
    """Filters that also restrict one of several tools to files and folders by `file_id_path`."""

    id_paths: list[str]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Filters whose globs, extensions and ids are resolved to `chosen` files, and id paths; None: every file.

    `symbol_ids` and `scope_ids` are chunks that hold a requested symbol or scope but are named after another.
    """

    filters: Filters
    chosen: Chosen | None
    id_paths: list[str] | None = None
    symbol_ids: Sequence[UUID] = ()
    scope_ids: Sequence[UUID] = ()

    @property
    def conditions(self) -> list[Condition]:
        """The conditions for the vector store."""
        f = self.filters
        chosen = self.chosen or Chosen()
        lists = {
            "file_node_id": chosen.ids,
            "file_type": types_of(f),
            "language": f.languages,
            "symbol": f.symbols,
            "node_type": f.node_types,
            "level": None if f.level is None else [f.level],
        }
        ids = {"symbol": self.symbol_ids, "scope": self.scope_ids}
        found = [Condition(name, "in", it, ids.get(name, ())) for name, it in lists.items() if it is not None]
        below = {"scope": f.scope and [f.scope], "json_pointer": f.json_pointer and [f.json_pointer]}
        parts = [*below.items(), ("file_id_path", self.id_paths), ("file_id_path", chosen.folders)]
        found += [Condition(name, "prefix", values, ids.get(name, ())) for name, values in parts if values is not None]
        return found + ([Condition("file_name", "suffix", chosen.endings)] if chosen.endings is not None else [])

    @property
    def values(self) -> dict[str, Any]:
        """The query parameters for Postgres."""
        f, chosen = self.filters, self.chosen or Chosen()
        return {
            "file_node_ids": chosen.ids,
            "folders": _each("{}/", chosen.folders),
            "endings": _each("%{}", chosen.endings),
            "types": types_of(f),
            "id_paths": self.id_paths,
            "symbol_ids": list(self.symbol_ids),
            "scope_ids": list(self.scope_ids),
            "below": _each("{}/", self.id_paths),
            **f.model_dump(include={"languages", "symbols", "node_types", "scope", "json_pointer", "level"}),
        }


def narrow(pool: Pool, index: Index, filters: Filters) -> Narrowed:
    """Resolve paths, file ids and names of definitions.

    Raises `FilterMatchesNothing` if paths and ids select no file with text.
    """
    only: set[str] | None = None
    if filters.file_ids is not None:
        only = set(files.named(pool, index.id, filters.file_ids))
    id_paths = filters.id_paths if isinstance(filters, Within) else None
    if id_paths is not None and any(len(path.encode()) >= MAX_FILTERABLE_BYTES for path in id_paths):
        # the store truncates filterable values, so it could not tell such paths apart
        below = {node_id for path in id_paths for node_id in files.below(pool, index.id, path)}
        only, id_paths = below if only is None else only & below, None
    chosen = choose(pool, index, filters, only)
    if chosen is not None and chosen.ids == []:
        _refuse(pool, index, filters)
    return Narrowed(
        filters,
        chosen,
        id_paths,
        symbols.holding(pool, index.id, filters.symbols) if filters.symbols else (),
        symbols.holding_scope(pool, index.id, filters.scope) if filters.scope else (),
    )


def _each(pattern: str, values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else [pattern.format(value) for value in values]


def check_some(pool: Pool, index: Index, narrowed: Narrowed) -> None:
    """Raise `FilterMatchesNothing` unless some chunk passes. Called only if a query found nothing."""
    if narrowed.filters != Filters() and not chunks.any_passes(pool, {**narrowed.values, "index_id": index.id}):
        _refuse(pool, index, narrowed.filters)


def _refuse(pool: Pool, index: Index, filters: Filters) -> None:
    said = ", ".join(f"{name}={said_of(value)}" for name, value in filters.model_dump(exclude_none=True).items())
    hint = _hint(pool, index, filters)
    message = f"No indexed file matches the filters {said}; widen them, or list the tool's files.{hint}"
    raise FilterMatchesNothing(message, hint=hint)


def said_of(value: object) -> str:
    """The beginning of a filter's value, for an error. The value may be a megabyte long."""
    text = repr(value)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"


def _hint(pool: Pool, index: Index, filters: Filters) -> str:
    """A hint listing the existing types and languages if none of the requested ones exists, else ""."""
    if filters.types is None and filters.languages is None:
        return ""
    types, languages = files.kinds(pool, index.id)
    hint = ""
    if filters.types is not None and not _any_typed(pool, index, filters.types, types):
        hint += f" Types here: {_some(types)}; languages: {_some(languages)}."
    if filters.languages is not None and not set(filters.languages) & set(languages):
        hint += f" Languages here: {_some(languages)}."
    return hint


def _any_typed(pool: Pool, index: Index, asked: Sequence[str], types: Sequence[str]) -> bool:
    """Whether any file has a requested type, language or extension. `types` are the existing types."""
    chosen = choose(pool, index, Filters(types=list(asked)), None)
    return bool(set(asked) & set(types)) if chosen is None else chosen.ids != []


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more
