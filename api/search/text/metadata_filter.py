"""Resolves filters by metadata to files.

Postgres groups files by their values of the filter's keys, and each distinct combination is compared once. So stores
have no metadata: a change of values changes no row there, and holds at once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import ge, gt, le, lt
from typing import Any, TypeVar, cast
from uuid import UUID

from api.http.lookup_cache import LookupCache
from api.search.text.path_pattern import PathPattern, Takes
from schemas.content.stated import scalar
from schemas.errors import Invalid
from schemas.queries.metadata import (
    COMPARISONS,
    PLAIN,
    MetadataKey,
    MetadataKeys,
    MetadataKind,
    MetadataValue,
    MetadataView,
)
from schemas.queries.search import Hit
from schemas.wording import indefinite
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import Held, MetadataState

AnyHit = TypeVar("AnyHit", bound=Hit)
#: Raises what ends the work early, such as that the caller has disconnected.
Check = Callable[[], None]
#: Types by key.
Declared = Mapping[str, MetadataKind]
#: A value that can be compared: a time is a `datetime`, a list of strings a set.
Typed = str | int | float | bool | datetime | frozenset[str]

#: Maximum number of files whose values are counted.
MAX_COUNTED_FILES = 100_000
#: Maximum number of distinct values counted for one key.
MAX_COUNTED_VALUES = 10_000
#: Maximum characters of a listed value.
MAX_VALUE_CHARACTERS = 1_000
#: Seconds for which a process remembers what filters select, as long as neither values nor files change.
AT_REST_SECONDS = 300
#: The size of all that it remembers, in ids. An id takes 100 bytes.
MAX_AT_REST = 600_000

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_ORDERED = frozenset({"int", "float", "time"})
_WANTED = {
    "string": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "time": "a time of RFC 3339 with a time zone, such as 2026-11-01T00:00:00Z",
    "strings": "a string",
}


def typed(value: object, kind: MetadataKind) -> Typed | None:
    """A value as its declared type; None if it is of another one."""
    if isinstance(value, bool):
        return value if kind == "bool" else None
    if isinstance(value, str):
        return value if kind == "string" else _time(value) if kind == "time" else None
    if isinstance(value, int):
        return float(value) if kind == "float" else value if kind == "int" else None
    if isinstance(value, float):
        return value if kind == "float" else int(value) if kind == "int" and value.is_integer() else None
    return frozenset(value) if kind == "strings" and isinstance(value, list) else None


def as_declared(stated: object, kind: MetadataKind) -> object:
    """A stated value as the declared type, if its text can be parsed as one."""
    if not isinstance(stated, str) or kind in {"string", "strings"}:
        return stated
    return scalar(stated)


@dataclass(frozen=True, slots=True)
class Passing:
    """Files that pass a filter: those that are listed, and the `file_node_id` of those with live chunks, in order."""

    files: frozenset[UUID]
    node_ids: Mapping[str, None]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Conditions on an index's files, which are the same if their JSON and that of the view are."""

    index_id: UUID
    conditions_json: str
    view_json: str
    state: MetadataState
    pool: Pool = field(compare=False)
    view: MetadataView = field(compare=False)
    conditions: Mapping[str, Any] = field(compare=False)
    check: Check = field(compare=False)


def passing(
    pool: Pool,
    index_id: UUID,
    view: MetadataView,
    conditions: Mapping[str, Any],
    check: Check,
    state: MetadataState | None = None,
) -> Passing:
    """The files that pass now. `check` may raise to end the lookup. `state` is what the caller has just read.

    Raises `Invalid` for a condition that the tool's declaration does not allow.
    """
    state = state or metadata.state(pool, index_id)
    key = _Lookup(index_id, json.dumps(conditions), view.model_dump_json(), state, pool, view, conditions, check)
    return cast("Passing", _at_rest.get(key)) if state.is_at_rest else _passing(key)


def _passing(key: _Lookup) -> Passing:
    keys, declared = [*key.conditions], key.view.declared
    tests = [_test(name, condition, _kind(declared, name)) for name, condition in key.conditions.items()]
    view = _narrowed(key.view, keys)
    rules = _Rules(view)
    files: set[UUID] = set()
    node_ids: set[str] = set()
    for held in metadata.files_by_values(key.pool, key.index_id, keys, view):
        key.check()
        values = rules.applied(keys, held)
        if all(test(typed(value, declared[name])) for name, test, value in zip(keys, tests, values, strict=True)):
            files.update(held.files)
            node_ids.update(held.node_ids)
    return Passing(frozenset(files), dict.fromkeys(sorted(node_ids)))


def size_at_rest(ids: int, text: int) -> int:
    """The size of a filter in ids, by the characters of its JSON, too. One of them may be a number of 20 bytes."""
    return 100 + ids + text // 5


def _size(key: _Lookup, passing: Passing) -> int:
    return size_at_rest(len(passing.files) + len(passing.node_ids), len(key.conditions_json) + len(key.view_json))


_at_rest: LookupCache[_Lookup, Passing] = LookupCache(_passing, AT_REST_SECONDS, MAX_AT_REST, _size)


def _narrowed(view: MetadataView, keys: Sequence[str]) -> MetadataView:
    """The view without rules that set none of these keys. Without any rule, files need not be told apart by path."""
    rules = tuple(rule for rule in view.rules if not rule.set.keys().isdisjoint(keys))
    return view.model_copy(update={"rules": rules})


class _Rules:
    """The rules of a tool, in their order."""

    def __init__(self, view: MetadataView) -> None:
        self._declared = view.declared
        self._rules = [(takes_of(PathPattern("rules.path", rule.path)), rule.set) for rule in view.rules]

    def set_at(self, path: str) -> dict[str, Any]:
        """The values that the rules set for a file at this path."""
        return {key: value for takes, values in self._rules if takes(path) for key, value in values.items()}

    def applied(self, keys: Sequence[str], held: Held) -> Sequence[Any]:
        """The values of these declared keys with those of the rules, as far as files state them as declared."""
        by_rule = {} if held.path is None else self.set_at(held.path)
        return [
            by_rule[key] if key in by_rule else self._value(key, value)
            for key, value in zip(keys, held.values, strict=True)
        ]

    def _value(self, key: str, value: Any) -> Any:
        """A node's value, or that in `stated`."""
        return as_declared(value["stated"], self._declared[key]) if isinstance(value, dict) else value


def takes_of(pattern: PathPattern) -> Takes:
    """The filter of a pattern. It compares literal folders first, which is many times faster than the pattern."""
    folder, takes = pattern.folder, pattern.anywhere()
    return (lambda path: path.startswith(folder) and takes(path)) if folder else takes


def check_rules(view: MetadataView) -> None:
    """Raise `Invalid` for a rule whose pattern can match nothing."""
    _Rules(view)


def _kind(declared: Declared, key: str) -> MetadataKind:
    if key not in declared:
        known = f"it declares {', '.join(sorted(declared))}" if declared else "it declares none"
        raise Invalid(f"The tool declares no metadata key {key!r} in config.metadata; {known}.")
    return declared[key]


def _test(key: str, condition: Mapping[str, Any], kind: MetadataKind) -> Callable[[Typed | None], bool]:
    """Whether a value, or None without one, passes all operators of a condition."""
    tests = [_operator(key, operator, operand, kind) for operator, operand in condition.items()]
    return lambda value: all(test(value) for test in tests)


def _operator(key: str, operator: str, operand: Any, kind: MetadataKind) -> Callable[[Typed | None], bool]:
    if operator == "exists":
        return lambda value: (value is not None) == operand
    if operator in COMPARISONS:
        if kind not in _ORDERED:
            raise Invalid(
                f"`{operator}` compares numbers and times, and metadata key {key!r} is {indefinite(kind)}; use `any`."
            )
        compare, bound = _COMPARE[operator], _bound(key, operand, kind)
        return lambda value: value is not None and compare(value, bound)
    wanted = {_wanted(key, each, kind) for each in operand}
    if operator == "all":
        if kind != "strings":
            raise Invalid(f"`all` is for lists of strings, and metadata key {key!r} is {indefinite(kind)}; use `any`.")
        return lambda value: value is not None and wanted <= _members(value)
    if operator == "not":
        return lambda value: value is None or wanted.isdisjoint(_members(value))
    return lambda value: value is not None and not wanted.isdisjoint(_members(value))


def _members(value: Typed) -> frozenset[Any]:
    return value if isinstance(value, frozenset) else frozenset((value,))


def _bound(key: str, value: object, kind: MetadataKind) -> Typed:
    """A number or time to compare with. Any number bounds an integer."""
    return value if kind == "int" and isinstance(value, float) else _wanted(key, value, kind)


def _wanted(key: str, value: object, kind: MetadataKind) -> Typed:
    found = typed(value, "string" if kind == "strings" else kind)
    if found is None:
        raise Invalid(
            f"The metadata key {key!r} is {indefinite(kind)}, so its filter needs {_WANTED[kind]}, not {value!r:.100}."
        )
    return found


def _time(text: str) -> datetime | None:
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def keys_of(
    pool: Pool, index_id: UUID, view: MetadataView, most_values: int, only: frozenset[UUID] | None = None
) -> MetadataKeys:
    """The declared keys with their most frequent values, of the first `MAX_COUNTED_FILES` files, or `only` of some."""
    keys, left, is_cut = sorted(view.declared), MAX_COUNTED_FILES, False
    view = _narrowed(view, keys)
    rules = _Rules(view)
    counts = {key: _Counts(view.declared[key]) for key in keys}
    for held in metadata.files_by_values(pool, index_id, keys, view, only) if keys else ():
        if left <= 0:
            is_cut = True
            break
        files = len(held.files)
        left -= files
        for key, value in zip(keys, rules.applied(keys, held), strict=True) if files else ():
            counts[key].add(value, files)
    items = [counts[key].shown(key, most_values) for key in keys]
    mistyped = ", ".join(f"{item.key} ({item.mistyped_files})" for item in items if item.mistyped_files)
    warning = f"Files with a value of another type than config.metadata declares, which counts as none: {mistyped}."
    if is_cut:
        warning += f" Only {MAX_COUNTED_FILES:,} files were counted."
    return MetadataKeys(items=items, warning=warning if mistyped else None, truncated=is_cut)


class _Counts:
    """Counts of a tool's files by their values of one key. Long values, and those after many others, are not listed."""

    def __init__(self, kind: MetadataKind) -> None:
        self._kind = kind
        self._files = self._mistyped = 0
        self._values: Counter[str | int | float | bool] = Counter()
        self._is_cut = False

    def add(self, value: Any, files: int) -> None:
        """Count files with a value; None for no value."""
        if value is None:
            return
        if typed(value, self._kind) is None:
            self._mistyped += files
            return
        self._files += files
        for each in {*value} if isinstance(value, list) else (value,):
            is_short = not isinstance(each, str) or len(each) <= MAX_VALUE_CHARACTERS
            if is_short and (each in self._values or len(self._values) < MAX_COUNTED_VALUES):
                self._values[each] += files
            else:
                self._is_cut = True

    def shown(self, key: str, most_values: int) -> MetadataKey:
        """The key with its most frequent values."""
        # equal numbers in alphabetical order
        frequent = sorted(self._values.items(), key=lambda each: (-each[1], str(each[0])))
        return MetadataKey(
            key=key,
            type=self._kind,
            files=self._files,
            mistyped_files=self._mistyped,
            values=[MetadataValue(value=value, files=files) for value, files in frequent[:most_values]],
            has_more=self._is_cut or len(frequent) > most_values,
        )


def with_metadata(pool: Pool, hits: Sequence[AnyHit], view: MetadataView) -> list[AnyHit]:
    """The hits with the metadata that the tool sees. A value of another type than the declared one is left out."""
    if view == PLAIN:
        return list(hits)
    rules = _Rules(view)
    stated = metadata.stated(pool, [hit.file_id for hit in hits], view.sources) if view.sources else {}

    def seen(hit: Hit) -> dict[str, Any] | None:
        texts = stated.get(hit.file_id, {})
        # a file may state thousands of keys that nobody asked for
        own = {key: as_declared(texts[key], kind) for key, kind in view.declared.items() if key in texts}
        values = {**own, **(hit.metadata or {}), **rules.set_at(hit.file_path)}
        return {key: value for key, value in values.items() if _is_typed(key, value, view.declared)} or None

    return [hit.model_copy(update={"metadata": seen(hit)}) for hit in hits]


def _is_typed(key: str, value: object, declared: Declared) -> bool:
    return key not in declared or typed(value, declared[key]) is not None
