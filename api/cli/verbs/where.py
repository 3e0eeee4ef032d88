"""The option that filters files by their metadata."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from api.cli.invocation import VerbFailed

if TYPE_CHECKING:
    from foldex_client import Tool

where_option = click.option(
    "--where",
    "where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only files with this metadata: =, !=, <, <=, >, >=, KEY alone or !KEY; repeatable.",
)

_CONDITION = re.compile(r"([\w.-]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_PRESENCE = re.compile(r"(!?)([\w.-]+)")
_OPERATORS = {"=": "any", "!=": "not", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def metadata_filter(where: Sequence[str], tool: Tool) -> dict[str, dict[str, Any]]:
    """The filter of a query over a tool, whose declaration tells the type of each value.

    Several values of one key are alternatives. Raises `VerbFailed` for what is no condition, and for one that another
    replaces.
    """
    kinds = tool.config.metadata or {}
    conditions: dict[str, dict[str, Any]] = {}
    value: str | int | float | bool
    for each in where:
        if presence := _PRESENCE.fullmatch(each):
            key, operator, value = presence[2], "exists", not presence[1]
        elif condition := _CONDITION.fullmatch(each):
            key, operator, value = condition[1], _OPERATORS[condition[2]], _typed(condition[1], condition[3], kinds)
        else:
            raise VerbFailed(f"--where {each} is no condition; write KEY=VALUE, such as team=red or year>=2020.")
        operators = conditions.setdefault(key, {})
        if operator in {"any", "not"}:
            operators[operator] = [*operators.get(operator, ()), value]
        elif operators.setdefault(operator, value) != value:
            raise VerbFailed(f"--where {each}: another --where has this comparison of {key}; keep one of the two.")
    return conditions


def _typed(key: str, value: str, kinds: Mapping[str, str]) -> str | int | float | bool:
    """A value as its key is declared. What is not of that type stays as it is, and the service says what it needs."""
    kind = kinds.get(key)
    with suppress(ValueError):
        if kind == "int":
            return int(value)
        if kind == "float":
            number = float(value)
            if not math.isfinite(number):
                raise VerbFailed(f"--where {key}: {value} is not finite; write a number such as 0.5.")
            return number
    return value == "true" if kind == "bool" and value in {"true", "false"} else value
