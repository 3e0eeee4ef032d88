"""Strings and comments are blanked, and names stay where they are."""

from __future__ import annotations

import ast
import keyword
import tokenize
from io import StringIO
from pathlib import Path

import pytest

from api.search.code.impact import is_test
from api.search.code.masked import masked
from api.search.code.reads import mentions
from tests.pumps import grows_too_fast

ROOT = Path(__file__).parents[5]


@pytest.mark.parametrize("file", sorted((ROOT / "api" / "search").rglob("*.py")), ids=lambda file: file.name)
def test_what_is_left_of_python_are_its_names(file: Path) -> None:
    text = file.read_text()
    code = masked(text, "python")
    assert len(code) == len(text)
    assert code.count("\n") == text.count("\n")
    tokens = list(tokenize.generate_tokens(StringIO(text).readline))
    nodes = [
        node for string in ast.walk(ast.parse(text)) if isinstance(string, ast.JoinedStr) for node in ast.walk(string)
    ]
    inserted = {str(getattr(node, field)) for node in nodes for field in ("id", "attr", "arg") if hasattr(node, field)}
    expected: dict[str, set[int]] = {}
    for token in tokens:
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            expected.setdefault(token.string, set()).add(token.start[0])
    for name, lines in expected.items():
        found = {code.count("\n", 0, start) + 1 for start in mentions(code, name)}
        # before Python 3.12 the tokens of an f-string are one string
        assert found == lines or (name in inserted and lines < found), name


@pytest.mark.parametrize(
    ("language", "text", "left"),
    [
        ("python", "x = '''a\nb''' # c", "x =     \n        "),
        ("python", "f'{a} b' '{c}'", "f  a          "),
        ("python", "f'{a(\"b\")} c'", "f  a(   )    "),
        ("python", "def f(a: 'B | C') -> \"D.e\": {'g': 'h'}", "def f(a:  B | C ) ->  D.e : {   :    }"),
        ("python", "'open\ny", "     \ny"),
        ("javascript", "a // b\nc /* d\ne */ f `g ${h} i`", "a     \nc     \n     f      h    "),
        ("go", "a := 'b' + `c\nd`", "a :=     +   \n  "),
        ("rust", "fn f<'a>(x: &'a str) { 'b' }", "fn f<'a>(x: &'a str) {     }"),
        ("ruby", "a = 1 # b", "a = 1    "),
        ("php", "$a = 'b'; # c\n// d", "$a =    ;    \n    "),
        (None, "a /* b", "a     "),
    ],
)
def test_strings_and_comments_go(language: str | None, text: str, left: str) -> None:
    assert masked(text, language).rstrip(" ") == left.rstrip(" ")


@pytest.mark.parametrize("part", ['"""', "'", '"', "`${", "/*", "\\", "\\'", "{", "f'{", "#", "//", "\\\n"])
@pytest.mark.parametrize("language", ["python", "javascript", "php", "ruby", "c"])
def test_the_time_is_linear_in_the_text(language: str, part: str) -> None:
    assert not grows_too_fast(lambda text: masked(text, language), lambda size: part * size, 20_000)


def test_a_name_is_found_as_a_whole_word() -> None:
    assert list(mentions("a ab a.a _a a1 (a)", "a")) == [0, 5, 7, 16]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True), ("src/test/java/A.java", True), ("test_a.py", True), ("a_test.go", True),
        ("a.spec.ts", True), ("__tests__/a.js", True), ("ATest.java", True), ("conftest.py", True),
        ("contest.py", False), ("src/testimony.py", False), ("latest.py", False), ("a.ts", False),
    ],
)  # fmt: skip # a line each says nothing
def test_files_of_tests_are_known_by_their_paths(path: str, expected: bool) -> None:
    assert is_test(path) is expected
