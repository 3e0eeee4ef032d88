"""Resolves filters by metadata to files.

Postgres groups files by their values of the filter's keys, and each distinct combination is compared once. So stores
have no metadata: a change of values changes no row there, and holds at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import ge, gt, le, lt
from typing import Any, TypeVar
from uuid import UUID

from schemas.errors import Invalid
from schemas.queries.metadata import COMPARISONS, MetadataKey, MetadataKeys, MetadataKind, MetadataValue
from schemas.queries.search import Hit
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import NO_COUNTS, CountedKey

Id = TypeVar("Id", str, UUID)
AnyHit = TypeVar("AnyHit", bound=Hit)
#: Types by key.
Declared = Mapping[str, MetadataKind]
#: A value that can be compared: a time is a `datetime`, a list of strings a set.
Typed = str | int | float | bool | datetime | frozenset[str]

#: RFC 3339 with a time zone, for Python and for Postgres.
TIME_PATTERN = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
_TIME = re.compile(TIME_PATTERN)
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


def files_of(pool: Pool, index_id: UUID, declared: Declared, conditions: Mapping[str, Any]) -> set[UUID]:
    """The listed files that pass. Raises `Invalid` for a condition that the tool's declaration does not allow."""
    return _passing(declared, conditions, partial(metadata.files_by_values, pool, index_id))


def node_ids_of(pool: Pool, index_id: UUID, declared: Declared, conditions: Mapping[str, Any]) -> set[str]:
    """As `files_of`, the `file_node_id` of files with live chunks."""
    return _passing(declared, conditions, partial(metadata.nodes_by_values, pool, index_id))


def _passing(
    declared: Declared,
    conditions: Mapping[str, Any],
    read: Callable[[Sequence[str]], Iterable[tuple[Sequence[Any], Sequence[Id]]]],
) -> set[Id]:
    tests = [_test(key, condition, _kind(declared, key)) for key, condition in conditions.items()]
    kinds = [declared[key] for key in conditions]
    found: set[Id] = set()
    for values, ids in read([*conditions]):
        if all(test(typed(value, kind)) for test, value, kind in zip(tests, values, kinds, strict=True)):
            found.update(ids)
    return found


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
            raise Invalid(f"`{operator}` compares numbers and times, and metadata key {key!r} is a {kind}; use `any`.")
        compare, bound = _COMPARE[operator], _bound(key, operand, kind)
        return lambda value: value is not None and compare(value, bound)
    wanted = {_wanted(key, each, kind) for each in operand}
    if operator == "all":
        if kind != "strings":
            raise Invalid(f"`all` is for lists of strings, and metadata key {key!r} is a {kind}; use `any`.")
        return lambda value: value is not None and wanted <= _members(value)
    if operator == "not":
        return lambda value: value is None or wanted.isdisjoint(_members(value))
    return lambda value: value is not None and not wanted.isdisjoint(_members(value))


def _members(value: Typed) -> frozenset[Any]:
    return value if isinstance(value, frozenset) else frozenset((value,))


def _bound(key: str, value: object, kind: MetadataKind) -> Typed:
    """A number or time to compare with. Any number bounds an integer."""
    return _wanted(key, value, "float" if kind == "int" else kind)


def _wanted(key: str, value: object, kind: MetadataKind) -> Typed:
    found = typed(value, "string" if kind == "strings" else kind)
    if found is None:
        raise Invalid(f"The metadata key {key!r} is a {kind}, so its filter needs {_WANTED[kind]}, not {value!r:.100}.")
    return found


def _time(text: str) -> datetime | None:
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def keys_of(pool: Pool, index_id: UUID, declared: Declared, most_values: int) -> MetadataKeys:
    """The declared keys with their most frequent values."""
    counted, is_whole = metadata.counted(pool, index_id, declared, most_values + 1, TIME_PATTERN)
    items = [_key(key, kind, counted.get(key, NO_COUNTS), most_values) for key, kind in sorted(declared.items())]
    mistyped = ", ".join(f"{item.key} ({item.mistyped_files})" for item in items if item.mistyped_files)
    warning = (
        f"Files whose value is of another type than config.metadata declares, so that it counts as none: {mistyped}."
    )
    return MetadataKeys(items=items, warning=warning if mistyped else None, truncated=not is_whole)


def _key(key: str, kind: MetadataKind, counted: CountedKey, most_values: int) -> MetadataKey:
    return MetadataKey(
        key=key,
        type=kind,
        files=counted.files,
        mistyped_files=counted.mistyped_files,
        values=[MetadataValue(value=value, files=files) for value, files in counted.values[:most_values]],
        has_more=len(counted.values) > most_values,
    )


def with_metadata(hits: Sequence[AnyHit], declared: Declared) -> list[AnyHit]:
    """The hits, whose metadata has no value of another type than the declared one."""
    return [hit if _is_typed(hit, declared) else hit.model_copy(update=_typed_part(hit, declared)) for hit in hits]


def _is_typed(hit: Hit, declared: Declared) -> bool:
    return all(
        key not in declared or typed(value, declared[key]) is not None for key, value in (hit.metadata or {}).items()
    )


def _typed_part(hit: Hit, declared: Declared) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in (hit.metadata or {}).items()
        if key not in declared or typed(value, declared[key]) is not None
    }
    return {"metadata": kept or None}
