"""One glob of a request."""

from __future__ import annotations

import warnings

import pytest

from schemas.errors import Invalid
from worker.ignore.patterns import compiled_glob


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.{py,md}", "a/b.md", True),
        ("*.{py,md}", "a/b.pyx", False),
        ("{a,b/{c,d}}/*.py", "b/d/x.py", True),
        ("{a,b/{c,d}}/*.py", "b/a/x.py", False),
        ("test{,s}/**", "tests/x", True),
        ("{{name}}/x", "{{name}}/x", True),
        ("{a,{b}}x", "{b}x", True),
        ("{a,b", "{a,b", True),
        ("a,b}", "a,b}", True),
        ("{a,{b,c}", "{a,c", True),
        ("{a,b}{c,d}", "bc", True),
        ("{a,b}{c,d}", "ba", False),
        ("{,x}{a,b{c,d}}e", "xbde", True),
        ("{a,!*}", "b", False),
        (r"\{a,b}", "{a,b}", True),
        (r"\{a,b}", "a", False),
    ],
)
def test_braces_are_either(glob: str, path: str, *, matches: bool) -> None:
    assert compiled_glob("glob", glob).matches(path) == matches


@pytest.mark.parametrize("glob", ["", " ", "# a comment", "[[a]&&]b"])
def test_a_glob_of_nothing_or_of_odd_brackets_matches_nothing_without_a_warning(glob: str) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert not compiled_glob("glob", glob).matches("a")
    assert warned == []


@pytest.mark.parametrize("glob", ["[", "!", "/", "a\\"])
def test_a_glob_that_can_match_nothing_is_refused(glob: str) -> None:
    with pytest.raises(Invalid, match="matches nothing"):
        compiled_glob("glob", glob)


@pytest.mark.parametrize("glob", ["{a,b}" * 100, "{" * 100_000, "{," * 100_000, f"{{{'a,' * 500}}}", "{a,b}" * 10])
def test_a_glob_of_too_much_is_refused(glob: str) -> None:
    with pytest.raises(Invalid, match="`glob` has"):
        compiled_glob("glob", glob)


@pytest.mark.parametrize(
    "glob", ["{a,b}" * 9, f"{{{'x,' * 498}x}}", "{a,a}" * 200, "{a,b}*" * 8, "*.{" + "a," * 490 + "b}"]
)
def test_a_glob_of_many_patterns_is_taken(glob: str) -> None:
    assert not compiled_glob("glob", glob).matches("c")
