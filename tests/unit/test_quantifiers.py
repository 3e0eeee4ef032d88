"""Patterns avoid possessive quantifiers and atomic groups, but still need only linear time and memory.

CPython before 3.11.5 gets these wrong, and Debian 12 has 3.11.2: there `(?:[^"/,]++|"…"|,(?!\\s*+]))*+` missed commas.
"""

from __future__ import annotations

import ast
import re
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.search.rank import definition_query
from schemas.content import jsonc
from worker.chunk import table
from worker.ignore.patterns import Patterns
from worker.parse.code import error_recovery as errors
from worker.parse.data import csv
from worker.parse.office import rtf
from worker.parse.text import markdown, rst
from worker.parse.web import html

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for top in ("api", "schemas", "worker") for path in (ROOT / top).rglob("*.py"))

#: A set of characters, in which these signs are literal.
SET = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]])*\]")

#: Texts that are words, not patterns.
WORDS = {"c++", "+++"}
#: Characters of a hostile text; their square exceeds any deadline.
LONG = 400_000


def is_refused(pattern: str) -> bool:
    """Whether a string, read as a pattern, has a possessive quantifier or an atomic group."""
    bare = SET.sub("x", re.sub(r"\\.", "x", pattern, flags=re.DOTALL))
    return "(?>" in bare or re.search(r".[*+?}]\+", bare, re.DOTALL) is not None


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module with their lines, without docstrings. F-strings appear as a whole and in pieces."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in told:
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def test_no_pattern_is_possessive_or_atomic() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in SOURCES
        for line, text in texts(path)
        if text not in WORDS and is_refused(text)
    ]
    assert not found, "write X*+ as X*(?!X), or match runs of pieces with worker.parse.text.runs.end_of_run"
    assert len(SOURCES) > 100


@pytest.mark.parametrize(
    "pattern", ["a++", "a*+", "a?+", "a{2,3}+", "a{2}+b", "(?>ab)", r"\w++", "[+*]++", r"\\++", "[]]*+"]
)
def test_the_search_finds_them(pattern: str, tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    for code in (
        f"import re\nA = re.compile(r'{pattern}')\n",
        f"B = rf'{{A}}{pattern.replace('{', '{{').replace('}', '}}')}{{A}}'\n",
        f"C = rb'''{pattern}'''",
    ):
        module.write_text(code)
        assert any(is_refused(text) for _, text in texts(module))


@pytest.mark.parametrize(
    "pattern", ["a+", "[*+]+", r"\*+", r"\++", "[+*?]", "a+?", "(?=a)", "(?P<b>a+)+", "[[:alpha:]+]+", "[]+*]"]
)
def test_the_search_finds_nothing_else(pattern: str) -> None:
    assert not is_refused(pattern)


def strings(text: str) -> None:
    list(jsonc.strings(text))


HOSTILE: list[tuple[str, Callable[[str], object], str]] = [
    ("a string of escapes", jsonc.plain, '"' + r"\n" * (LONG // 2)),
    ("a string of quotes", jsonc.is_by_hand, '//"' + r"\"" * (LONG // 2)),
    ("quotes outside of strings", jsonc.is_by_hand, "//" + r"\"" * (LONG // 2)),
    ("commas before blanks", jsonc.plain, "," + " " * LONG),
    ("blanks after commas", jsonc.plain, ", " * (LONG // 2)),
    ("strings without an end", strings, r"\"" * (LONG // 2) + '"' + r"\"" * (LONG // 2)),
    ("doubled quotes in a cell", table._records, 'a,"b\n' + '""' * (LONG // 2)),
    ("doubled quotes in a first line", table._records, 'a\n"' + '""' * (LONG // 2) + "\n"),
    ("cells without an end", table._records, ',"\n"",""' * (LONG // 8)),
    ("lines in a cell", table._records, '"' + "\n" * LONG),
    ("a quoted name without an end", lambda text: csv._QUOTED.search(text[:65_536]), '"' + '""' * (LONG // 2)),
    ("a tag without an end", html._TAG.search, "<" + "a" * LONG),
    ("tags without an end", html._TAG.search, "<a b" * (LONG // 4)),
    ("words of rich text", rtf._without_deleted, "{" + r"\a" * (LONG // 2)),
    ("groups of rich text", rtf._without_deleted, r"{\a1" * (LONG // 4)),
    ("a line of signs", lambda text: list(rst.headings(text)), "a\n" + "=" * LONG),
    ("lines of signs", lambda text: list(rst.headings(text)), "==\n==" * (LONG // 5)),
    ("signs and blanks", lambda text: list(rst.headings(text)), "=" * (LONG // 2) + " " * (LONG // 2)),
    ("rows of a table", lambda text: list(markdown.blocks(text, 0, len(text))), "|\n" * (LONG // 2)),
    ("rows below dashes", lambda text: list(markdown.blocks(text, 0, len(text))), "a|b\n-|-\n" + "a|\n" * (LONG // 3)),
    ("a long cell", lambda text: list(markdown.blocks(text, 0, len(text))), "a" * LONG + "|"),
    ("many cells", lambda text: list(markdown.blocks(text, 0, len(text))), "a|" * (LONG // 2) + "\n"),
    ("blanks behind an end", lambda text: errors._EXCLUDED["c"].search(text.encode()), "#endif" + " " * LONG + "\nx"),
    ("lines behind an end", lambda text: errors._EXCLUDED["c"].search(text.encode()), "#endif\n" * (LONG // 7) + "x"),
    ("blanks after brace", lambda text: errors._tail_start(text.encode(), 0, len(text), b""), f"\n}}{' ' * LONG}\n.x"),
    ("words in a query", definition_query.names_in_query, "a" * LONG),
]  # fmt: skip # a text a line


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("look", "text"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_texts_take_neither_time_nor_memory(look: Callable[[str], object], text: str) -> None:
    tracemalloc.start()
    try:
        look(text)
        assert tracemalloc.get_traced_memory()[1] < 20 * LONG, "a state for each piece takes over 100 bytes"
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["a" * 255, "ab" * 127, "a" * 254 + "b"])
def test_stars_take_time_with_the_name_and_not_its_powers(name: str) -> None:
    patterns = Patterns(["*a" * 60 + "*c", "a*b*" * 30 + "[x-z]", "*?*" * 40 + "[ab]*[c]"], "star")
    assert patterns.match([name], 0, is_dir=False) is None
    assert Patterns(["*a" * 60 + "*"], "star").match(["a" * 255], 0, is_dir=False) == ("star",)


@pytest.mark.timeout(60)
def test_brackets_without_an_end_take_time_with_the_pattern() -> None:
    lines = ["[" * 1000, "[!" * 500, "[[:" * 333, "a[\\]" * 250, "/[" * 500]
    assert Patterns(lines * 200, "star").match(["a"], 0, is_dir=False) is None
