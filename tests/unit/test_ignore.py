"""Which paths a tool's rules keep."""

import pytest

from schemas.errors import Invalid
from worker.ignore import Rules


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("README.md", True),
        ("docs/.hidden/a.md", True),
        ("target/plan.md", True),
        (".git/config", False),
        ("web/node_modules/left-pad/index.js", False),
        ("node_modules", True),
        ("a/.git", True),
    ],
)
def test_only_directories_nobody_wrote_are_left_out(path: str, kept: bool) -> None:
    assert Rules().keep(path) is kept


def test_pruned_directories_and_kept_files_agree() -> None:
    rules = Rules(exclude=["build/", "*.log"])
    assert rules.prune("app/build")
    assert rules.prune("app/build/deep")
    assert not rules.prune("app")
    assert not rules.keep("app/build/deep/a.md")
    assert not rules.keep("app/a.log")
    assert rules.keep("app/a.md")


def test_include_selects_and_exclude_wins() -> None:
    rules = Rules(include=["docs/", "*.md"], exclude=["draft-*"])
    assert rules.keep("docs/a.txt")
    assert rules.keep("src/b.md")
    assert not rules.keep("src/b.py")
    assert not rules.keep("docs/draft-1.md")


def test_a_default_can_be_taken_back() -> None:
    rules = Rules(exclude=["!node_modules/"])
    assert not rules.prune("node_modules")
    assert rules.keep("node_modules/a.js")


def test_nothing_comes_back_below_an_excluded_directory() -> None:
    rules = Rules(exclude=["old/", "!old/keep.md"])
    assert not rules.keep("old/keep.md")


def test_types_are_extensions_or_the_type_the_caller_knows() -> None:
    rules = Rules(types=[".MD", "json"])
    assert rules.keep("A.md")
    assert rules.keep("no-extension", "json")
    assert not rules.keep("a.txt", "text")
    assert not Rules(types=["md"]).keep(".md")


def test_a_deep_path_is_judged() -> None:
    assert Rules().keep("d/" * 1500 + "a.md")


@pytest.mark.parametrize("pattern", ["!", "[", "/", "a\\", "x" * 1001, "*a*b*c*d*e"])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        Rules(include=[pattern])


def test_too_many_patterns_are_refused_and_blank_ones_pass() -> None:
    with pytest.raises(Invalid):
        Rules(exclude=["a"] * 1001)
    assert Rules(exclude=["", "# a comment"]).keep("a")
