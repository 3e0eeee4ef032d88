"""Filters as SQL expressions for LanceDB, which supports no query parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from uuid import UUID

from cachetools import LRUCache

from worker.vectors import Condition, cut_filterable
from worker.vectors.rows import clean

#: Number of conditions whose text a process caches: all legs of a query share one, and agents repeat it. A condition of
#: a thousand files takes a millisecond to write.
MAX_KEPT = 8
#: Range of the number of values and ids of a cached condition: writing a shorter one is fast, and a longer one takes
#: over 4 MB.
KEPT_VALUES = range(32, 100_001)

#: Held by whoever reads or changes `_recent`.
_recent_lock = Lock()
#: Conditions by identity, with their text: to compare thousands of values takes a millisecond for each leg.
_recent: LRUCache[int, tuple[Condition, str]] = LRUCache(MAX_KEPT)


def where(conditions: Sequence[Condition]) -> str:
    """Return one expression that requires all conditions; "" if there are none."""
    return " AND ".join(map(_sql, conditions))


def is_in(name: str, values: Sequence[str | int]) -> str:
    """Return the expression that a column equals one of the values."""
    return f"{name} IN ({', '.join(map(_literal, values))})"


def _sql(condition: Condition) -> str:
    # 1 and True are equal, but have different spellings in SQL
    are_texts = all(isinstance(value, str) for value in condition.values[:1])
    is_kept = are_texts and len(condition.values) + len(condition.ids) in KEPT_VALUES
    return _recent_text(condition) if is_kept else _text(condition, _written)


def _recent_text(condition: Condition) -> str:
    with _recent_lock:
        known, text = _recent.get(id(condition), (None, ""))
    if known is not condition:
        text = _text(condition, _kept)
        with _recent_lock:
            _recent[id(condition)] = condition, text
    return text


def _text(condition: Condition, write: Callable[..., str]) -> str:
    return write(condition.attribute, condition.op, tuple(condition.values), tuple(condition.ids))


def _written(name: str, op: str, values: tuple[str | int, ...], ids: tuple[UUID, ...]) -> str:
    stored = [cut_filterable(clean(value)) if isinstance(value, str) else value for value in values]
    if op == "in":
        alternatives = [is_in(name, stored)]
    else:
        expression = _below if op == "prefix" else _ending
        alternatives = [expression(name, value) for value in stored]
    if ids:
        alternatives.append(is_in("id", [str(id_) for id_ in ids]))
    return f"({' OR '.join(alternatives)})"


_kept = lru_cache(MAX_KEPT)(_written)


def _below(name: str, value: str | int) -> str:
    # "0" is the character after "/", so the range is exactly the values that start with the prefix and "/".
    low, high = _literal(f"{value}/"), _literal(f"{value}0")
    return f"{name} = {_literal(value)} OR ({name} >= {low} AND {name} < {high})"


def _ending(name: str, value: str | int) -> str:
    # Suffixes hold no wildcard characters.
    return f"{name} LIKE {_literal(f'%{value}')}"


def _literal(value: str | int) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
