"""Hides totals over all files of an index from callers who may not read all of them."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from pydantic import BaseModel

from api.http.dependencies import Caller
from schemas.fields import COVERS_FILES
from schemas.tool import Tool, ToolConfig

Shown = TypeVar("Shown", bound=BaseModel)


def as_seen(shown: Shown, caller: Caller, *, may_hide: bool) -> Shown:
    """The same without what `fields.Covering` marks, if lists may hide files of the index from the caller.

    It does not matter whether they do: otherwise, what is missing would tell that something is hidden.
    """
    return _without_totals(shown) if may_hide and not caller.sight.is_whole else shown


def tool_as_seen(tool: Tool, caller: Caller) -> Tool:
    """A tool as its caller sees it.

    Rules with access lists name folders, so only callers who can change the config see them.
    """
    seen = as_seen(tool, caller, may_hide=tool.may_hide)
    if caller.sight.is_whole or "write" in caller.scopes:
        return seen
    updating = seen.updating and seen.updating.model_copy(update={"config": _without_lists(seen.updating.config)})
    return seen.model_copy(update={"config": _without_lists(seen.config), "updating": updating})


def _without_totals(shown: Shown) -> Shown:
    covering = _covering(type(shown))
    changed: dict[str, object] = {}
    for name in type(shown).model_fields:
        value = getattr(shown, name)
        if name in covering:
            changed[name] = None
        elif isinstance(value, BaseModel):
            changed[name] = _without_totals(value)
    return shown.model_copy(update=changed)


@cache
def _covering(model: type[BaseModel]) -> frozenset[str]:
    """The fields that are marked, also those that a model declares anew."""
    bases = [base for base in model.__mro__ if issubclass(base, BaseModel)]
    return frozenset(
        name for base in bases for name, described in base.model_fields.items() if COVERS_FILES in described.metadata
    )


def _without_lists(config: ToolConfig) -> ToolConfig:
    rules = [rule for rule in config.rules if rule.acl is None]
    return config if len(rules) == len(config.rules) else config.model_copy(update={"rules": rules})
