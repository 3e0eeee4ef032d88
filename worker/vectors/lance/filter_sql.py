"""Filters as SQL expressions for LanceDB, which supports no query parameters."""

from __future__ import annotations

from collections.abc import Sequence

from worker.vectors import Condition, cut_filterable
from worker.vectors.rows import clean


def where(conditions: Sequence[Condition]) -> str:
    """Return one expression that requires all conditions; "" if there are none."""
    return " AND ".join(map(_sql, conditions))


def is_in(name: str, values: Sequence[str | int]) -> str:
    """Return the expression that a column equals one of the values."""
    return f"{name} IN ({', '.join(map(_literal, values))})"


def _sql(condition: Condition) -> str:
    values = [cut_filterable(clean(value)) if isinstance(value, str) else value for value in condition.values]
    name = condition.attribute
    if condition.op == "in":
        alternatives = [is_in(name, values)]
    else:
        expression = _below if condition.op == "prefix" else _ending
        alternatives = [expression(name, value) for value in values]
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
