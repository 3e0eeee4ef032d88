"""Loads the grammars for parsing code, each on first use. None is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from typing import TYPE_CHECKING

from worker.formats.grammars import GRAMMARS, is_known
from worker.parse.code.definition_names import NameFields, fields_of

if TYPE_CHECKING:
    from tree_sitter import Parser, Query


@dataclass(frozen=True, slots=True)
class Grammar:
    """A parser, the query for definitions and references in its trees, and the fields that hold names.

    `top` is a separate query for matches directly below the root: a pattern anchored at the root slows a whole query
    down.
    """

    parser: Parser
    query: Query
    top: Query | None
    fields: NameFields


@cache
def grammar(language: str) -> Grammar | None:
    """Return the grammar of a language; None if it is not available."""
    if not is_known(language):
        return None
    from tree_sitter import Language, Parser, Query

    module, function, queries = GRAMMARS[language]
    parsed_language = Language(getattr(import_module(module), function)())
    query, top = (_patterns(queries, suffix) for suffix in (".scm", ".top.scm"))
    return Grammar(
        Parser(parsed_language),
        Query(parsed_language, query),
        Query(parsed_language, top) if top else None,
        fields_of(parsed_language),
    )


def _patterns(queries: str, suffix: str) -> str:
    files = (resources.files("worker.parse.code").joinpath("grammars", f"{name}{suffix}") for name in queries.split())
    return "\n".join(file.read_text() for file in files if file.is_file())
