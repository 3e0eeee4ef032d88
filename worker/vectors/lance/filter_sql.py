"""Filters as SQL expressions for LanceDB, which supports no query parameters."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from cachetools import LRUCache

from worker.vectors import Condition, cut_filterable
from worker.vectors.rows import clean

#: Number of conditions whose text a process caches: all legs of a query share one, and agents repeat it. A condition of
#: a thousand files takes a millisecond to write.
MAX_KEPT = 8
#: Range of the number of values and ids of a cached condition: writing a shorter one is fast, and a longer one takes
#: over 4 MB.
KEPT_VALUES = range(32, 100_001)

#: Held by whoever reads or changes `_texts`.
_lock = Lock()
#: Conditions by the identity of their values, with their text: to compare thousands of values takes a millisecond, and
#: whoever filters by so many keeps them for the next query.
_texts: LRUCache[int, tuple[Condition, str]] = LRUCache(MAX_KEPT)


def where(conditions: Sequence[Condition]) -> str:
    """Return one expression that requires all conditions; "" if there are none."""
    return " AND ".join(map(_sql, conditions))


def is_in(name: str, values: Sequence[str | int]) -> str:
    """Return the expression that a column equals one of the values."""
    return f"{name} IN ({', '.join(map(_literal, values))})"


def _sql(condition: Condition) -> str:
    if len(condition.values) + len(condition.ids) not in KEPT_VALUES:
        return _written(condition)
    with _lock:
        known, text = _texts.get(id(condition.values), (None, ""))
    if known is None or not _are_same(known, condition):
        text = _written(condition)
        with _lock:
            _texts[id(condition.values)] = condition, text
    return text


def _are_same(one: Condition, other: Condition) -> bool:
    """Whether two conditions have the very same values, and are equal beside."""
    return (
        one.values is other.values
        and (one.attribute, one.op) == (other.attribute, other.op)
        and list(one.ids) == list(other.ids)
    )


def _written(condition: Condition) -> str:
    name = condition.attribute
    stored = [cut_filterable(clean(value)) if isinstance(value, str) else value for value in condition.values]
    if condition.op == "in":
        alternatives = [is_in(name, stored)]
    else:
        expression = _below if condition.op == "prefix" else _ending
        alternatives = [expression(name, value) for value in stored]
    if condition.ids:
        alternatives.append(is_in("id", [str(id_) for id_ in condition.ids]))
    return f"({' OR '.join(alternatives)})"


def _below(name: str, value: str | int) -> str:
    # "0" is the character after "/", so the range is exactly the values that start with the prefix and "/".
    low, high = _literal(f"{value}/"), _literal(f"{value}0")
    return f"{name} = {_literal(value)} OR ({name} >= {low} AND {name} < {high})"


def _ending(name: str, value: str | int) -> str:
    # Suffixes hold no wildcard characters.
    return f"{name} LIKE {_literal(f'%{value}')}"


def _literal(value: str | int) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
