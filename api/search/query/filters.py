"""Converts a query's filters for the vector store and Postgres."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

from api.http.lookup_cache import LookupCache
from api.http.sight import SeenIndex
from api.search.query.file_filter import FileSelection, files_that_are, indexed_types, select_files
from api.search.text import metadata_filter
from api.search.text.metadata_filter import AT_REST_SECONDS, MAX_AT_REST, Check, size_at_rest
from api.search.text.visibility import VisibleFiles, ids_of, visible_files
from schemas.errors import FilterMatchesNothing
from schemas.queries.search import Filters, Query
from schemas.wording import list_first
from worker.state.index import file_lookup
from worker.state.pool import Pool
from worker.state.search import found_chunks, metadata, symbols
from worker.state.search.metadata import MetadataState
from worker.vectors import MAX_FILTERABLE_BYTES, Condition

#: Seconds for which they are cached during a run, and for which the start of a run may go unnoticed. The shortest run
#: takes longer, so a caller who waits for a run finds what it indexed.
RESOLVED_SECONDS = 0.05
#: During a run they are cached for so many times as long as they took: those of a large folder take longer than the
#: rest of a search.
RESOLVED_REST = 10
#: Maximum types or languages that an error lists.
MAX_LISTED_NAMES = 30
#: Maximum characters of a filter's value in an error.
MAX_VALUE_CHARACTERS = 200
#: How an error writes the operators of metadata; others are words.
_SIGNS = {"any": "=", "not": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


class PathFilters(Filters):
    """Filters that also restrict one of several tools to files and folders by `file_id_path`."""

    id_paths: list[str]


@dataclass(frozen=True, slots=True)
class ResolvedFilters:
    """Filters whose globs, extensions and ids are resolved to `files`, and id paths; None: every file.

    `symbol_ids` and `scope_ids` are chunks that hold a requested symbol or scope but are named after another. The
    caller may read only the `visible` files, and `files` are some of these.
    """

    filters: Filters
    files: FileSelection | None
    id_paths: list[str] | None = None
    symbol_ids: Sequence[UUID] = ()
    scope_ids: Sequence[UUID] = ()
    visible: VisibleFiles | None = None

    @property
    def conditions(self) -> list[Condition]:
        """The conditions for the vector store."""
        filters = self.filters
        selection = self.files or FileSelection()
        lists = {
            "file_node_id": selection.ids,
            "file_type": indexed_types(filters),
            "language": filters.languages,
            "symbol": filters.symbols,
            "node_type": filters.node_types,
            "level": None if filters.level is None else [filters.level],
        }
        prefixes = [
            ("scope", filters.scope and [filters.scope]),
            ("json_pointer", filters.json_pointer and [filters.json_pointer]),
            ("file_id_path", self.id_paths),
            ("file_id_path", selection.folders),
        ]
        ids = {"symbol": self.symbol_ids, "scope": self.scope_ids}
        return [
            *(Condition(name, "in", it, ids.get(name, ())) for name, it in lists.items() if it is not None),
            *(Condition(name, "prefix", it, ids.get(name, ())) for name, it in prefixes if it is not None),
            *([Condition("file_name", "suffix", selection.endings)] if selection.endings is not None else []),
        ]

    @property
    def values(self) -> dict[str, object]:
        """The query parameters for Postgres."""
        selection = self.files or FileSelection()
        return {
            "file_node_ids": None if selection.ids is None else list(selection.ids),
            "folders": _formatted("{}/", selection.folders),
            "endings": _formatted("%{}", selection.endings),
            "types": indexed_types(self.filters),
            "id_paths": self.id_paths,
            "symbol_ids": list(self.symbol_ids),
            "scope_ids": list(self.scope_ids),
            "below": _formatted("{}/", self.id_paths),
            **self.filters.model_dump(include={"languages", "symbols", "node_types", "scope", "json_pointer", "level"}),
        }


@dataclass(frozen=True, slots=True)
class _FilterLookup:
    """Filters of an index, which are the same if their JSON is. At rest they select the same in the same `state`.

    Filters by metadata are the same only if the JSON of the tool's view is, too; for others, `view_json` is "".
    """

    index_id: UUID
    filters_json: str
    view_json: str
    state: MetadataState
    visible: VisibleFiles | None
    pool: Pool = field(compare=False)
    index: SeenIndex = field(compare=False)
    filters: Filters = field(compare=False)
    check: Check = field(compare=False)


def filters_of(pool: Pool, index: SeenIndex, query: Query, check: Check) -> ResolvedFilters:
    """Do what `resolve_filters` does for a query, for which all paths of a folder may be read.

    What is returned is of the same task, and as old as `RESOLVED_SECONDS` and `RESOLVED_REST` allow; or current if the
    query asks to compare the folder. Filters by metadata, and what the caller may read, are always current. `check` may
    raise to end their resolution.
    """
    if query.filters == Filters():
        visible = visible_files(pool, index, check)
        return ResolvedFilters(query.filters, files_that_are(visible), visible=visible)
    by_metadata = query.filters.metadata is not None
    is_any_age = query.refresh == "none" and not by_metadata
    is_shared = is_any_age and index.sight.is_whole
    state = cast("MetadataState", (_states.get if is_shared else _states.fresh)((pool, index.id)))
    visible = visible_files(pool, index, check, state)
    if by_metadata and not state.is_at_rest:
        return resolve_filters(pool, index, query.filters, visible, check, state)
    view_json = index.metadata.model_dump_json() if by_metadata else ""
    filters_json = query.filters.model_dump_json()
    key = _FilterLookup(index.id, filters_json, view_json, state, visible, pool, index, query.filters, check)
    look = _resolved.get if is_any_age or state.is_at_rest else _resolved.fresh
    return cast("ResolvedFilters", look(key))


def state_at_rest(pool: Pool, index: SeenIndex, query: Query) -> str:
    """The state of an index in which no file changes, as old as `RESOLVED_SECONDS` allow; "" if any may change.

    A node may change without a task.
    """
    if query.refresh != "none" or index.lists is not None or index.source.content_node is not None:
        return ""
    state = cast("MetadataState", _states.get((pool, index.id)))
    return f"{state.task_id} {state.finished_at} {state.version}" if state.is_at_rest else ""


def resolve_filters(
    pool: Pool,
    index: SeenIndex,
    filters: Filters,
    visible: VisibleFiles | None = None,
    check: Check = lambda: None,
    state: MetadataState | None = None,
) -> ResolvedFilters:
    """Resolve paths, file ids and names of definitions, in the files that the caller may read. `state` was just read.

    Raises `FilterMatchesNothing` if paths and ids select no file with text.
    """
    allowed_ids: Collection[str] | None = None
    if filters.metadata is not None:
        allowed_ids = metadata_filter.passing(pool, index.id, index.metadata, filters.metadata, check, state).node_ids
    if filters.file_ids is not None:
        allowed_ids = _both(allowed_ids, file_lookup.find_named(pool, index.id, filters.file_ids))
    id_paths = filters.id_paths if isinstance(filters, PathFilters) else None
    if id_paths is not None and any(len(path.encode()) >= MAX_FILTERABLE_BYTES for path in id_paths):
        # the store truncates filterable values, so it could not tell such paths apart
        of_nodes = index.source.content_node is not None
        below = {node_id for path in id_paths for node_id in file_lookup.below(pool, index.id, path, of_nodes=of_nodes)}
        allowed_ids, id_paths = _both(allowed_ids, below), None
    selection = select_files(pool, index, filters, allowed_ids, visible)
    if selection is not None and selection.ids is not None and not selection.ids:
        raise _no_match(pool, index, filters, visible)
    only = ids_of(visible)
    return ResolvedFilters(
        filters,
        selection,
        id_paths,
        symbols.holding(pool, index.id, filters.symbols, only) if filters.symbols else (),
        symbols.holding_scope(pool, index.id, filters.scope, only) if filters.scope else (),
        visible,
    )


def _both(allowed: Collection[str] | None, ids: Iterable[str]) -> Collection[str]:
    return {*ids} if allowed is None else {each for each in ids if each in allowed}


def _resolve(key: _FilterLookup) -> ResolvedFilters:
    return resolve_filters(key.pool, key.index, key.filters, key.visible, key.check, key.state)


def _size(key: _FilterLookup, resolved: ResolvedFilters) -> int:
    ids, text = resolved.files.ids if resolved.files else None, len(key.filters_json) + len(key.view_json)
    return size_at_rest(len(ids or ()) + len(resolved.symbol_ids) + len(resolved.scope_ids), text)


def _seconds(key: _FilterLookup) -> float:
    # Without a task no file changes, so a large folder's files need not be listed for each query. Only a repair of
    # wrong counts does without one: what it corrects is seen by the next task, or after this time.
    return AT_REST_SECONDS if key.state.is_at_rest else RESOLVED_SECONDS


_states: LookupCache[tuple[Pool, UUID], MetadataState] = LookupCache(lambda key: metadata.state(*key), RESOLVED_SECONDS)
_resolved: LookupCache[_FilterLookup, ResolvedFilters] = LookupCache(
    _resolve, _seconds, MAX_AT_REST, _size, RESOLVED_REST
)


def check_any_passes(pool: Pool, index: SeenIndex, filters: ResolvedFilters) -> None:
    """Raise `FilterMatchesNothing` unless some chunk passes. Called only if a query found nothing."""
    if not found_chunks.any_passes(pool, {**filters.values, "index_id": index.id}):
        raise _no_match(pool, index, filters.filters, filters.visible)


def shortened(value: object) -> str:
    """The beginning of a filter's value, for an error. The value may be a megabyte long."""
    return _shortened_text(repr(value))


def _shortened_text(text: str) -> str:
    """The beginning of a text that a caller gave."""
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"


def _formatted(pattern: str, values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else [pattern.format(value) for value in values]


def _no_match(pool: Pool, index: SeenIndex, filters: Filters, visible: VisibleFiles | None) -> FilterMatchesNothing:
    hint = _hint(pool, index, filters, visible)
    if filters.model_dump(exclude_none=True).keys() == {"path"}:
        message = f"No indexed file matches the path {shortened(filters.path)}; check it, or list the tool's files."
        return FilterMatchesNothing(message, hint=hint)
    message = (
        f"No indexed file matches the filters {spell_filters(filters)}; widen them, or list the tool's files.{hint}"
    )
    return FilterMatchesNothing(message, hint=hint)


def spell_filters(filters: Filters) -> str:
    """The filters that are set, for an error: `types=['pdf'], team='red', year>=2020`."""
    given = filters.model_dump(mode="json", exclude_none=True)
    conditions = given.pop("metadata", {})
    parts = [f"{name}={shortened(value)}" for name, value in given.items()]
    of_metadata = []
    for key, condition in conditions.items():
        operators = condition if isinstance(condition, dict) else {"any": condition}
        of_metadata += [f"{key}{_spell_condition(operator, value)}" for operator, value in operators.items()]
    return ", ".join([*parts, *filter(None, [_shortened_text(", ".join(of_metadata))])])


def _spell_condition(operator: str, value: object) -> str:
    if operator == "exists":
        return " is set" if value else " is not set"
    values = value if isinstance(value, list) else [value]
    said = shortened(values[0] if len(values) == 1 else values)
    return f"{_SIGNS.get(operator, f' {operator} ')}{said}"


def _hint(pool: Pool, index: SeenIndex, filters: Filters, visible: VisibleFiles | None) -> str:
    """A hint listing the visible types and languages if none of the requested ones is among them, else ""."""
    if filters.types is None and filters.languages is None:
        return ""
    types, languages = file_lookup.kinds(pool, index.id, ids_of(visible))
    hint = ""
    if filters.types is not None and not _any_has_type(pool, index, filters.types, types, visible):
        hint += f" Types here: {_listed(types)}; languages: {_listed(languages)}."
    if filters.languages is not None and not set(filters.languages) & set(languages):
        hint += f" Languages here: {_listed(languages)}."
    return hint


def _any_has_type(
    pool: Pool, index: SeenIndex, requested: Sequence[str], existing: Sequence[str], visible: VisibleFiles | None
) -> bool:
    """Whether any visible file has a requested type, language or extension. `existing` are their types."""
    filters = Filters(types=list(requested))
    if indexed_types(filters) is not None:
        return bool(set(requested) & set(existing))
    selection = select_files(pool, index, filters, None, visible)
    return selection is None or selection.ids is None or bool(selection.ids)


def _listed(names: Sequence[str]) -> str:
    return list_first(names, MAX_LISTED_NAMES) or "none"
