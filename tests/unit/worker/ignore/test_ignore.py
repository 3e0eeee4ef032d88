"""Which paths a tool's rules keep."""

from __future__ import annotations

import os
import random
from contextlib import nullcontext
from typing import get_args

import pytest
import structlog

from schemas.errors import Invalid
from schemas.tool import IgnoredKind
from tests.unit.worker.ignore.judging import BARE, judge
from worker.ignore import EVERYTHING, IGNORE_FILES, MAX_COST, MAX_IGNORE_FILE, NOT_OBEYED, IgnoreFile, Rules, Trail
from worker.ignore.defaults import DEFAULTS
from worker.ignore.patterns import MAX_LIST, MAX_LIST_COST, MAX_PATTERN, MAX_PATTERNS, Patterns, compiled_glob
from worker.ignore.wildcards import edges, elements_of, matcher

# --- defaults


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("README.md", None),
        ("docs/.hidden/a.md", None),
        ("target/plan.md", None),
        ("build/vendor/dist/a.md", None),
        ("node_modules", None),
        (".git/config", ".git/: vcs"),
        ("sub/.git", "vcs"),
        ("web/node_modules/left-pad/index.js", "web/node_modules/: dependencies"),
        ("a/.yarn/cache/x.zip", "a/.yarn/cache/: dependencies"),
        ("a/__pycache__/b.pyc", "a/__pycache__/: caches"),
        (".foldex/a.md", ".foldex/: caches"),
        ("photos/Thumbs.db", "caches"),
        ("photos/desktop.ini", "caches"),
        ("photos/.DS_Store", "caches"),
        ("photos/._notes.md", "caches"),
        ("photos/settings.ini", None),
        ("uv.lock", "locks"),
        ("web/package-lock.json", "locks"),
        ("web/jquery.min.js", "minified"),
        ("api/v1_pb2.py", "generated"),
        (".idea/workspace.xml", ".idea/: editors"),
        ("notes.md~", "editors"),
    ],
)
def test_what_nobody_means_is_left_out(path: str, rule: str | None) -> None:
    assert judge(Rules(), path) == rule
    assert judge(EVERYTHING, path) is None


@pytest.mark.parametrize("kind", get_args(IgnoredKind))
def test_each_default_can_be_turned_off(kind: str) -> None:
    examples = {
        "secrets": ".env",
        "vcs": ".git/a",
        "dependencies": "venv/a",
        "caches": ".cache/a",
        "locks": "go.sum",
        "minified": "a.min.css",
        "generated": "a.pb.go",
        "editors": ".#a",
    }
    for name, path in examples.items():
        assert (judge(Rules(keep=[kind]), path) is None) == (name == kind)
    # what they hold, not the name, decides what is binary and what is a worktree
    content = {"binaries", "worktrees"}
    assert {*examples, *content} == {*DEFAULTS, *content} == set(get_args(IgnoredKind))


def test_an_ignore_file_or_exclude_takes_a_default_back() -> None:
    assert judge(Rules(), "uv.lock", {".gitignore": "!uv.lock\n"}) is None
    assert judge(Rules(exclude=["!node_modules/"]), "node_modules/a.js") is None
    assert judge(Rules(exclude=["!node_modules/"]), "node_modules/.cache/a.js") == "node_modules/.cache/: caches"


# --- the tool's own patterns


@pytest.mark.parametrize(
    ("line", "path", "rule"),
    [("#a.md", "#a.md", None), ("\\#a.md", "#a.md", "ignore_file"), ("a#.md", "a#.md", "ignore_file")],
)
def test_a_line_that_begins_with_a_number_sign_is_a_comment(line: str, path: str, rule: str | None) -> None:
    assert judge(BARE, path, {".gitignore": f"{line}\n"}) == rule


def test_exclude_has_the_last_word() -> None:
    files = {".gitignore": "*.md\n/out/\n", "docs/.foldexignore": "a.txt\n"}
    assert judge(Rules(exclude=["!a.md", "!out/", "b.txt"]), "a.md", files) is None
    assert judge(Rules(exclude=["!a.md", "!out/", "b.txt"]), "out/x.txt", files) is None
    assert judge(Rules(exclude=["!docs/a.txt"]), "docs/a.txt", files) is None
    assert judge(Rules(exclude=["b.txt"]), "docs/b.txt", files) == "exclude"
    assert judge(Rules(), "docs/b.md", files) == "ignore_file"


def test_include_selects_files_and_whole_directories() -> None:
    rules = Rules(include=["docs/", "*.md", "!docs/drafts/", "docs/drafts/good.txt"], exclude=["draft-*"])
    kept = ["docs/a.txt", "docs/deep/b.txt", "src/b.md", "docs/drafts/c.md", "docs/drafts/good.txt"]
    assert [path for path in kept if judge(rules, path)] == []
    assert judge(rules, "src/b.py") == "include"
    assert judge(rules, "docs/drafts/c.txt") == "include"
    assert judge(rules, "docs/draft-1.md") == "exclude"


@pytest.mark.parametrize("pattern", ["!", "[", "/", "a\\", "[[:no:]]", "x" * 1001])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="include"):
        Rules(include=[pattern])
    with pytest.raises(Invalid, match="exclude"):
        Rules(exclude=[pattern])


def test_too_many_patterns_are_refused_and_blank_ones_pass() -> None:
    with pytest.raises(Invalid):
        Rules(exclude=["a"] * 1001)
    assert judge(Rules(exclude=["", "# a comment", "[[:alpha:]&&]b"]), "a") is None
    assert judge(Rules(exclude=["a"] * 1000), "a") == "exclude"


@pytest.mark.parametrize("more", [0, 1])
def test_patterns_of_a_list_are_bounded_together(more: int) -> None:
    patterns = ["a" * MAX_PATTERN] * (MAX_LIST // MAX_PATTERN) + ["b"] * more
    with pytest.raises(Invalid, match="combine") if more else nullcontext():
        assert judge(Rules(exclude=patterns), "c") is None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("[z-a]", "z"), ("[a-\\c]", "b"), ("[!/]", "#"), ("a[b/c]", "ab"), ("*a*b*c*d*e", "xaxbxcxdxe")],
)
def test_a_pattern_that_git_knows_is_taken(pattern: str, path: str) -> None:
    assert judge(Rules(exclude=[pattern]), path) == "exclude"


# --- ignore files


def test_deeper_directories_and_later_files_win() -> None:
    assert judge(BARE, "a/b.md", {".gitignore": "*.md\n", "a/.gitignore": "!b.md\n"}) is None
    assert judge(BARE, "a/b.md", {".gitignore": "!b.md\n", "a/.gitignore": "*.md\n"}) == "ignore_file"
    order = dict(zip(IGNORE_FILES, ["*.md\n", "!b.md\n", "b.md\n", "!b.md\n"], strict=True))
    assert judge(BARE, "b.md", order) is None
    del order[".foldexignore"]
    assert judge(BARE, "b.md", order) == "ignore_file"
    assert judge(BARE, "b.md", {".gitignore": "!b.md\n", ".ignore": "b.md\n"}) == "ignore_file"


def test_a_pattern_with_a_slash_begins_at_its_own_directory() -> None:
    files = {"sub/.gitignore": "docs/a.md\n"}
    assert judge(BARE, "sub/docs/a.md", files) == "ignore_file"
    assert judge(BARE, "sub/sub/docs/a.md", files) is None


@pytest.mark.parametrize(("path", "is_ignored"), [("a/b/c", False), ("a/b/b/c", True), ("a/b/x/b/c", True)])
def test_two_stars_take_no_name_a_second_time(path: str, *, is_ignored: bool) -> None:
    assert (judge(BARE, path, {".gitignore": "a/b/**/b/c"}) is not None) == is_ignored


def test_nothing_comes_back_below_an_excluded_directory() -> None:
    files = {".gitignore": "old/\n!old/keep.md\n", "old/.gitignore": "!*\n"}
    assert judge(BARE, "old/keep.md", files) == "old/: ignore_file"


def test_ignore_files_can_be_passed_over() -> None:
    assert judge(Rules(use_ignore_files=False), "a.md", {".gitignore": "*\n"}) is None


@pytest.mark.parametrize(
    "data",
    [
        b"*.md\n" + b"#" * MAX_IGNORE_FILE,
        b"*.md\n\0",
        "*.md\n".encode("utf-16"),
        b"*?.md\n" * (MAX_COST // 10 + 1),
        b"".join(b"%d.md\n" % number for number in range(MAX_COST)) + b"*.md\n",
    ],
)
def test_an_ignore_file_beyond_measure_is_not_obeyed(data: bytes) -> None:
    assert judge(BARE, "a.md", {".gitignore": data}) is None
    assert judge(BARE, "d/a.md", {".gitignore": data, "d/.gitignore": "a.md\n"}) == "ignore_file"


def test_an_ignore_file_of_the_greatest_size_is_obeyed() -> None:
    lines = b"*.md\n"
    assert judge(BARE, "a.md", {".gitignore": lines + b"#" * (MAX_IGNORE_FILE - len(lines))}) == "ignore_file"


def test_a_pattern_of_the_greatest_length_is_obeyed() -> None:
    assert judge(Rules(exclude=["x" * MAX_PATTERN]), "x" * MAX_PATTERN) == "exclude"


def test_only_a_backslash_that_is_none_itself_keeps_a_blank_at_the_end() -> None:
    for pattern, name in (("a ", "a"), ("a\\ ", "a "), ("a\\\\ ", "a\\"), ("a\\\\\\ ", "a\\ ")):
        assert judge(BARE, name, {".gitignore": pattern}) == "ignore_file"


def test_what_is_too_much_along_one_way_is_not_obeyed() -> None:
    many = b"x?\n" * (MAX_COST // 10)
    assert judge(BARE, "d/a.md", {".gitignore": many, "d/.gitignore": "a.md\n"}) is None
    assert judge(BARE, "e/a.md", {"d/.gitignore": many, "e/.gitignore": "a.md\n"}) == "ignore_file"


def test_names_and_patterns_that_are_no_text_meet() -> None:
    name = b"caf\xe9.md".decode("utf-8", "surrogateescape")
    assert judge(BARE, name, {".gitignore": b"caf\xe9.md\r\n"}) == "ignore_file"
    assert judge(BARE, name, {".gitignore": b"\xef\xbb\xbfcaf*.md"}) == "ignore_file"
    assert judge(BARE, "new\nline.md", {".gitignore": "new?line.md\n"}) == "ignore_file"


def test_a_directory_is_loaded_once_and_its_files_share_the_way() -> None:
    loaded: list[tuple[str, ...]] = []

    def load(way: tuple[str, ...]) -> list[IgnoreFile]:
        loaded.append(way)
        return [(".gitignore", b"gone/\n")]

    trail = Trail(BARE, str, load)
    for way in ((), ("a",), ("a",), ("a", "b"), ("a", "gone"), ("a", "gone", "x"), ("a",), ("c",)):
        trail.pruned(way)
    assert loaded == [(), ("a",), ("a", "b"), ("c",)]


# --- ignore files that cannot be applied


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "not a readable file"),
        (b"*.md\n" * MAX_IGNORE_FILE, "not a readable file"),
        ("*.md\n".encode("utf-16"), "NUL bytes"),
        (b"*.a*\n" * MAX_COST, "too many patterns"),
    ],
)
def test_an_ignore_file_that_is_not_obeyed_is_named(data: bytes | None, reason: str) -> None:
    trail = Trail(BARE, str, lambda way: [(".gitignore", data)] if way else [])
    with structlog.testing.capture_logs() as logs:
        assert trail.pruned(("docs",)) is None
    assert trail.ignored("a.md") is None
    (said,) = logs
    assert (said["log_level"], said["path"]) == ("warning", "docs/.gitignore")
    assert reason in said["reason"]
    assert trail.refused(None) == {NOT_OBEYED: 1}
    assert trail.refused(None) == {}


@pytest.mark.parametrize(
    ("after", "refused"), [(("a", "b", "c.md"), {}), (("a", "b"), {}), (("a", "c.md"), {NOT_OBEYED: 1})]
)
def test_what_an_earlier_page_refused_is_not_counted_again(after: tuple[str, ...], refused: dict[str, int]) -> None:
    trail = Trail[str](BARE, str, lambda way: [(".gitignore", None)] if way == ("a", "b") else [])
    trail.pruned(("a", "b"))
    assert trail.refused(after) == refused


def test_a_line_that_cannot_match_is_named_and_the_others_hold() -> None:
    lines = b"caf\xe9.md\n[[:no:]]\n*.log\n\\\n"
    with structlog.testing.capture_logs() as logs:
        assert judge(BARE, "sub/a.log", {"sub/.gitignore": lines}) == "ignore_file"
        assert judge(BARE, "sub/z", {"sub/.gitignore": lines}) is None
    assert {(said["pattern"], said["path"]) for said in logs} == {(bad, "sub/.gitignore") for bad in ("[[:no:]]", "\\")}
    # names on disk need not be UTF-8 either
    assert judge(BARE, os.fsdecode(b"caf\xe9.md"), {".gitignore": lines}) == "ignore_file"


@pytest.mark.parametrize("text", ["\ud800?", "?\ud800"])
def test_halves_of_pairs_in_a_tools_patterns_do_no_harm(text: str) -> None:
    assert judge(Rules(exclude=[text]), text.replace("?", "a")) == "exclude"
    assert judge(Rules(exclude=["?.md"]), f"{text}.md") is None


# --- time


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 200 + "b", "a" * 255),
        ("**/" + "a*/**/" * 100 + "b", "/".join(["aa"] * 2000)),
        ("*" * 900 + "b", "a" * 255),
        ("*a*a*a*a/*a*a*a*b", "/".join(["a" * 200] * 2)),
        ("/".join(["*a*"] * 200) + "/b", "/".join(["a" * 20] * 2000)),
        ("?[a-b]" * 90 + "*" + "[!x]?" * 90 + "*b", "a" * 4000),
        ("[" * 900, "[" * 255),
    ],
)
def test_no_pattern_takes_a_power_of_the_path(pattern: str, path: str) -> None:
    # otherwise the test does not end
    if not pattern.startswith("[["):
        assert not compiled_glob("glob", pattern).matches(path)
    assert Patterns([pattern], "x").match(path.split("/"), 0, is_dir=False) is None


def test_a_deep_path_is_judged() -> None:
    assert judge(Rules(), "d/" * 5000 + "a.md") is None


# --- the cost of a list


def test_the_cost_of_a_list_has_a_limit() -> None:
    # an ending costs 10
    lines = [f"*.{number}" for number in range(MAX_PATTERNS)]
    assert judge(Rules(exclude=lines), "a.999") == "exclude"
    long = [f"*{number}{'/*' * 98}" for number in range(MAX_LIST_COST // 1_040)]
    assert Patterns(long).cost <= MAX_LIST_COST
    assert judge(Rules(exclude=long), "a") is None
    with pytest.raises(Invalid, match="`exclude` has too many patterns with wildcards"):
        Rules(exclude=long * 2)


def test_what_matches_a_pattern_has_its_edges() -> None:
    chance = random.Random(7)
    matched = 0
    for _ in range(20_000):
        pattern = "".join(chance.choice("ab*?[") for _ in range(chance.randrange(1, 6))).replace("[", "[ab]")
        wild, name = matcher([*elements_of(pattern)]), "".join(chance.choices("abc", k=chance.randrange(1, 5)))
        if isinstance(wild, str) or not wild.matches(name):
            continue
        matched += 1
        first, last = edges(wild)
        assert name.startswith(first), (pattern, name)
        assert name.endswith(last), (pattern, name)
        # and the machine, which looks for patterns by their edges, finds it
        assert Patterns([pattern], "rule").match([name], 0, is_dir=False) == ("rule",), (pattern, name)
    assert matched > 1000
