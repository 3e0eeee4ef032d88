"""Each sentence of SECURITY.md names the tests that show it, in `security.txt`."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.documents import ROOT

#: Stands in place of tests where a sentence warns the reader and promises nothing.
WARNING = "a warning"
TABLE = (ROOT / "tests/unit/security.txt").read_text()


def sentences(text: str) -> list[str]:
    """The sentences below the headings, but for the first part, which says how to report a vulnerability."""
    _, heading, text = text.partition("\n## What is promised")
    lines = [line for line in (heading + text).splitlines() if not line.startswith("#")]
    paragraphs = re.split(r"\n\s*\n|\n(?=- )", "\n".join(lines))
    joined = (" ".join(paragraph.split()).removeprefix("- ") for paragraph in paragraphs)
    return [sentence for paragraph in joined for sentence in re.split(r"(?<=\.) (?=[A-Z`])", paragraph) if sentence]


def shown() -> dict[str, list[str]]:
    """The tests that show each sentence."""
    entries = re.split(r"\n(?=\S)", TABLE.strip())
    rows = ([line.strip() for line in entry.splitlines()] for entry in entries)
    return {sentence: tests for sentence, *tests in rows}


def exists(test: str) -> bool:
    module, _, name = test.partition("::")
    return name in names_in(module)


@cache
def names_in(module: str) -> frozenset[str]:
    file = ROOT / module
    tree = ast.parse(file.read_text()) if file.exists() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_sentence_has_its_entry_and_each_entry_its_sentence() -> None:
    assert sentences((ROOT / "SECURITY.md").read_text()) == [*shown()], "name the tests in tests/unit/security.txt"


def test_the_tests_that_show_a_sentence_exist() -> None:
    missing = {
        sentence: [test for test in tests if not exists(test)] or "no test"
        for sentence, tests in shown().items()
        if tests != [WARNING] and not (tests and all(map(exists, tests)))
    }
    assert missing == {}


def test_a_sentence_that_nobody_showed_is_found() -> None:
    text = "# Security\n\n## What is promised\n\nWith:\n\n- One `thing` holds. `Another`\n  does.\n\nA third: yes.\n"
    assert sentences(text) == ["With:", "One `thing` holds.", "`Another` does.", "A third: yes."]
    assert exists("tests/unit/test_security.py::test_a_sentence_that_nobody_showed_is_found")
    assert not exists("tests/unit/test_security.py::test_that_is_missing")
    assert not exists("tests/unit/test_missing.py::test_that_is_missing")
