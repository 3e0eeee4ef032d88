"""Only constants are compiled by `re`, whose time may grow with a power of the text. Other patterns are matched in
linear time, by `worker.ignore` or RE2.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for top in ("api", "schemas", "worker") for path in (ROOT / top).rglob("*.py"))

#: Functions of `re` whose first argument is a pattern.
COMPILING = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
#: Modules that turn a caller's text into an expression of `re`, or into another that backtracks.
BACKTRACKING = {"fnmatch", "glob", "pathspec", "regex", "sre_compile", "wcmatch"}
#: Modules that compile more than constants, each with the reason why that is harmless.
ALLOWED = {
    "worker/parse/code/error_recovery.py": "escaped blanks at the start of a line, in the helper process",
    "worker/tokens/normal_forms.py": "a class of the accents in the interpreter's own tables, made when first needed",
}


class Compiled(ast.NodeVisitor):
    """Finds what a module compiles or imports, except constants."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        # whatever a module compiles while it is imported is constant
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815 - as `ast` names them

    def visit_Import(self, node: ast.Import) -> None:
        names = [alias.name.split(".")[0] for alias in node.names]
        self._note_names(node, names)
        if any(alias.name == "re" and alias.asname for alias in node.names):
            self._note(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._note_names(node, [(node.module or "").split(".")[0]])
        if node.module == "re":
            self._note(node)

    def visit_Call(self, node: ast.Call) -> None:
        if is_of_re(node.func):
            pattern = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "pattern"), node)
            if self._depth and not is_constant(pattern):
                self._note(node)
            for child in (*node.args, *node.keywords):
                self.visit(child)
            return
        is_glob = isinstance(node.func, ast.Attribute) and node.func.attr in {"glob", "rglob"}
        if is_glob and not all(map(is_constant, node.args)):
            self._note(node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # passed on, as in `map(re.compile, …)`
        if self._depth and is_of_re(node):
            self._note(node)
        self.generic_visit(node)

    def _note_names(self, node: ast.stmt, names: list[str]) -> None:
        if not BACKTRACKING.isdisjoint(names):
            self._note(node)

    def _note(self, node: ast.expr | ast.stmt) -> None:
        self.found.append((node.lineno, ast.unparse(node)))


def is_of_re(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in COMPILING
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
    )


def is_constant(node: ast.AST) -> bool:
    """Whether an expression consists of literals and names of constants."""
    if isinstance(node, ast.Name):
        return node.id.isupper()
    if isinstance(node, ast.JoinedStr):
        return all(map(is_constant, node.values))
    if isinstance(node, ast.FormattedValue):
        return is_constant(node.value)
    if isinstance(node, ast.BinOp):
        return is_constant(node.left) and is_constant(node.right)
    return isinstance(node, ast.Constant)


def compiled(code: str) -> list[tuple[int, str]]:
    visitor = Compiled()
    visitor.visit(ast.parse(code))
    return visitor.found


def everything() -> Iterator[tuple[str, int, str]]:
    for path in SOURCES:
        for line, text in compiled(path.read_text()):
            yield path.relative_to(ROOT).as_posix(), line, text


def test_only_constants_become_expressions_that_may_backtrack() -> None:
    assert len(SOURCES) > 100
    found = list(everything())
    outside = [f"{path}:{line}: {text}" for path, line, text in found if path not in ALLOWED]
    assert outside == [], "match it by worker.ignore or re2"
    assert {path for path, _, _ in found} == ALLOWED.keys(), "remove what is no longer needed"


@pytest.mark.parametrize(
    "code",
    [
        "import fnmatch",
        "from fnmatch import fnmatchcase",
        "import glob as g",
        "from pathspec.patterns import x",
        "from re import compile",
        "import re as r",
        "def f(a): return re.compile(a)",
        "def f(a): return re.sub(pattern=a, repl='', string='')",
        "def f(a): return re.match(f'x{a}', '')",
        "def f(a): return re.search('x' + a, '')",
        "def f(a): return re.findall(re.escape(a), '')",
        "f = lambda a: re.split(a, '')",
        "async def f(a): return re.fullmatch(*a)",
        "def f(a): return map(re.compile, a)",
        "def f(a, p): return p.rglob(a)",
        "class A:\n    def f(self): return re.finditer(self.pattern, '')",
    ],
)
def test_the_search_finds_them(code: str) -> None:
    assert compiled(code)


@pytest.mark.parametrize(
    "code",
    [
        "import re, re2",
        "A = re.compile('|'.join(map(re.escape, B)))",
        "def f(a): return re.match(r'\\w', a)",
        "def f(a): return re.match(rf'{_A}' + B, a)",
        "def f(a): return A.match(a)",
        "def f(a): return re.escape(a)",
        "def f(p): return p.glob(f'{A}*')",
    ],
)
def test_the_search_finds_nothing_else(code: str) -> None:
    assert compiled(code) == []
