"""The grammars for parsing code. Only helpers load them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

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


@cache
def is_known(language: str) -> bool:
    """Return whether a language has a grammar whose package is installed (extra `code`)."""
    return language in GRAMMARS and all(find_spec(name) for name in ("tree_sitter", GRAMMARS[language][0]))
