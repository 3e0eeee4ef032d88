"""Filters of a query as the store and Postgres take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas.errors import FilterMatchesNothing
from schemas.search import Filters
from worker.ignore import compiled_glob
from worker.state import Pool, chunks, files
from worker.state.tools import Index
from worker.vectors import Condition


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Filters with paths and file ids resolved to `file_node_id` values (None: every file)."""

    filters: Filters
    file_node_ids: list[str] | None

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
        found = [Condition(name, "in", values) for name, values in lists.items() if values is not None]
        prefixes = {"scope": f.scope, "json_pointer": f.json_pointer}
        return found + [Condition(name, "prefix", [value]) for name, value in prefixes.items() if value is not None]

    @property
    def values(self) -> dict[str, Any]:
        """For Postgres."""
        f = self.filters
        return {
            "file_node_ids": self.file_node_ids,
            **f.model_dump(include={"types", "languages", "symbols", "node_types", "scope", "json_pointer", "level"}),
        }


def narrow(pool: Pool, index: Index, filters: Filters) -> Narrowed:
    """Resolve paths and file ids; raises `FilterMatchesNothing` where they select no file with text."""
    ids: set[str] | None = None
    if filters.path is not None:
        spec = compiled_glob("path", filters.path)
        ids = {node_id for node_id, path in files.paths(pool, index.id) if spec.match_file(path)}
    if filters.file_ids is not None:
        named = set(files.named(pool, index.id, filters.file_ids))
        ids = named if ids is None else ids & named
    narrowed = Narrowed(filters, None if ids is None else sorted(ids))
    if ids is not None and not ids:
        _refuse(narrowed)
    return narrowed


def check_some(pool: Pool, index: Index, narrowed: Narrowed) -> None:
    """Raise `FilterMatchesNothing` unless some chunk passes; asked only when a query found nothing."""
    if narrowed.filters != Filters() and not chunks.any_passes(pool, {**narrowed.values, "index_id": index.id}):
        _refuse(narrowed)


def _refuse(narrowed: Narrowed) -> None:
    said = ", ".join(f"{name}={value!r}" for name, value in narrowed.filters.model_dump(exclude_none=True).items())
    raise FilterMatchesNothing(f"No indexed file matches the filters {said}; widen them, or list the tool's files.")
