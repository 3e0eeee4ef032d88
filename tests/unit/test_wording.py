"""Messages have the word that fits their number, and the article that fits their noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.wording import amount, indefinite, list_first

ROOT = Path(__file__).parents[2]
#: Plurals, which are wrong after the number 1.
PLURALS = (
    "chunks|definitions|differences|directories|documents|entries|fields|files|folders|hits|hosts|items|"
    "keys|legs|levels|lines|messages|migrations|nodes|objects|pages|parts|patterns|principals|processes|questions|"
    "reasons|requests|results|rows|summaries|tasks|texts|tokens|tools|values|vectors"
)
AFTER_NUMBER = re.compile(rf"^\+? (?:[a-z]+ )??(?:{PLURALS})\b(?!/s)")
#: What a constant, a size or a name in a template begins with.
LIMIT = re.compile(r"^[\w.()\[\]]*?\b_?[A-Z][A-Z_]+\b[\w.()\[\] /*]*$")
#: Expressions of limits, which are never 1.
NEVER_ONE = {"limit", "most", "most_values"}
#: The functions that choose a word by its number.
CHOOSE = {"amount", "noun"}


def is_choice(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHOOSE


def formatted(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, expression, text after it) of the parts of templates that are not chosen by a number."""
    chosen = {id(part) for call in ast.walk(tree) if is_choice(call) for part in ast.walk(call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in chosen:
            for value, after in zip(node.values, node.values[1:], strict=False):
                if not isinstance(value, ast.FormattedValue) or is_choice(value.value):
                    continue
                if isinstance(after, ast.Constant):
                    yield value.lineno, ast.unparse(value.value), str(after.value)


def modules() -> Iterator[Path]:
    for floor in ("api", "worker", "schemas", "client/foldex_client"):
        yield from (ROOT / floor).rglob("*.py")


def test_no_message_has_a_plural_after_a_number_that_may_be_one() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {{{value}}}{after}"
        for path in modules()
        for line, value, after in formatted(ast.parse(path.read_text()))
        if AFTER_NUMBER.match(after) and not LIMIT.match(value) and value not in NEVER_ONE
    ]
    assert wrong == []


def test_no_message_has_an_article_before_a_word_that_varies() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{value.lineno}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        for before, value in zip(node.values, node.values[1:], strict=False)
        if isinstance(value, ast.FormattedValue)
        and isinstance(before, ast.Constant)
        and re.search(r"\b[Aa]n? $", str(before.value))
        and value.conversion == -1
    ]
    assert wrong == []


def test_the_page_has_no_plural_after_a_number_that_may_be_one() -> None:
    pattern = re.compile(rf"\$\{{(?:number|compact)\([^{{}}]*\)\}} (?:{PLURALS})\b(?!/s)")
    wrong = [
        f"{path.name}: {found[0]}"
        for path in (ROOT / "api" / "page" / "static" / "js").rglob("*.js")
        for found in pattern.finditer(path.read_text())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1.5, "1.5 files"), (2000, "2,000 files")]
)
def test_the_word_fits_the_number(count: float, words: str) -> None:
    assert amount(count, "file") == words
    assert amount(1, "summary", "summaries") == "1 summary"


@pytest.mark.parametrize(("name", "said"), [("int", "an int"), ("file", "a file"), ("index", "an index")])
def test_the_article_fits_the_noun(name: str, said: str) -> None:
    assert indefinite(name) == said


@pytest.mark.parametrize(
    ("most", "said"), [(1, "a and 2 more"), (2, "a, b and 1 more"), (3, "a, b, c"), (4, "a, b, c")]
)
def test_the_first_names_are_listed_and_the_others_counted(most: int, said: str) -> None:
    assert list_first(["a", "b", "c"], most) == said
    assert list_first([], most) == ""
    assert list_first(["a"] * 2001, 1) == "a and 2,000 more"
