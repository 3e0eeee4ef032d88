"""Loads the grammars for parsing code, each on first use. None is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

from worker.parse.code.definition_names import NameFields, fields_of

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

#: Per language: the module and function of its grammar, and the queries (`grammars/*.scm`) to run over its trees.
GRAMMARS = {
    "bash": ("tree_sitter_bash", "language", "bash"),
    "c": ("tree_sitter_c", "language", "c"),
    "cpp": ("tree_sitter_cpp", "language", "c cpp"),
    "csharp": ("tree_sitter_c_sharp", "language", "csharp"),
    "go": ("tree_sitter_go", "language", "go"),
    "java": ("tree_sitter_java", "language", "java"),
    "javascript": ("tree_sitter_javascript", "language", "javascript jsx heritage"),
    "php": ("tree_sitter_php", "language_php", "php"),
    "python": ("tree_sitter_python", "language", "python"),
    "ruby": ("tree_sitter_ruby", "language", "ruby"),
    "rust": ("tree_sitter_rust", "language", "rust"),
    "tsx": ("tree_sitter_typescript", "language_tsx", "javascript jsx typescript"),
    "typescript": ("tree_sitter_typescript", "language_typescript", "javascript typescript"),
}


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
def is_known(language: str) -> bool:
    """Whether a language has a grammar whose package is installed (extra `code`)."""
    return language in GRAMMARS and all(find_spec(name) for name in ("tree_sitter", GRAMMARS[language][0]))


@cache
def grammar(language: str) -> Grammar | None:
    """The grammar of a language; None if it is not available."""
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
