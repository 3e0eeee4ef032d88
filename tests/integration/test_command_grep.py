"""`foldex grep` prints what `rg` prints, and ends with its exit status."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from api.search.grep import ripgrep
from tests.integration.commanding import foldex, on_terminal, refused
from tests.service import Service

WORDS = ("token", "Token", "tokens", "a-token", "make_token", "TODO", "x", "", "été", "語", "token token", "(token)")
#: Options with the same meaning in both.
OPTIONS: tuple[tuple[str, ...], ...] = (
    *((), ("-i",), ("-w",), ("-F",), ("-m", "1"), ("-t", "py"), ("-t", "py", "-t", "md"), ("-g", "*.py")),
    *(("-g", "!src/"), ("-g", "*.md", "-g", "*.py", "-g", "!other*"), ("-i", "-w")),
)
SHAPES: tuple[tuple[str, ...], ...] = (
    *((), ("-l",), ("-c",), ("-o",), ("-c", "-o"), ("-A", "1"), ("-B", "2"), ("-C", "1"), ("-C", "3", "-A", "0")),
    *(("-l", "-c"), ("-c", "-l")),
)
PATTERNS = (r"\w+_token", "t|語", "x+", "nowhere at all", r"\bx\b", r"\(.*\)")


@pytest.fixture(scope="module")
def folder(root: Path, running: Service) -> Path:
    """An indexed folder with the tool `lines`."""
    folder = root / "lines"
    chance = random.Random(57)
    for name in ("a.md", "other.md", "src/b.py", "src/c.txt", "src/deep/d.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{' '.join(chance.choices(WORDS, k=3))}\n" for _ in range(12)))
    assert foldex(running, "index", str(folder)).returncode == 0
    return folder


def rg(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    program = ripgrep.program()
    assert program is not None
    command = [program, "--no-config", "--no-ignore", "--sort=path", "--no-heading", "-n", "-H", *arguments]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return done.returncode, lines


@pytest.mark.parametrize("shape", SHAPES, ids=" ".join)
def test_it_prints_what_ripgrep_prints(running: Service, folder: Path, shape: tuple[str, ...]) -> None:
    chance = random.Random(" ".join(shape))
    # after the last hit of a file, rg marks lines around it that match too
    options = [each for each in OPTIONS if "-m" not in each or not set(shape) & {"-A", "-B", "-C"}]
    asked = [("token", each) for each in chance.sample(options, 3)]
    asked += [(pattern, ()) for pattern in chance.sample(PATTERNS, 2)]
    for pattern, chosen in asked:
        arguments = [*chosen, *shape, pattern]
        status, lines = rg(folder, *arguments, "./")
        done = foldex(running, "grep", *arguments, cwd=folder)
        found = [f"./{line}" if line != "--" else line for line in done.stdout.splitlines()]
        assert (done.returncode, found) == (status, lines), arguments


@pytest.mark.parametrize("pattern", [r"token\nx", r"TODO\s+\w+", r"x$[^x]*\bTODO", "x\\n\\(token"])
@pytest.mark.parametrize("around", [(), ("-C", "1"), ("-A", "2"), ("-F",)], ids=" ".join)
def test_the_lines_of_a_match_are_those_of_ripgrep(
    running: Service, folder: Path, pattern: str, around: tuple[str, ...]
) -> None:
    status, lines = rg(folder, "-U", *around, pattern, "./")
    done = foldex(running, "grep", "-U", *around, pattern, cwd=folder)
    assert (done.returncode, [f"./{line}" if line != "--" else line for line in done.stdout.splitlines()]) == (
        status,
        lines,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("-S", "token", "./"),
        ("-S", "Token", "./"),
        ("-S", r"\Wtoken", "./"),
        ("-e", "token", "./"),
        ("--type", "py", "x", "./"),
        ("--word-regexp", "--files-with-matches", "x", "./"),
        ("--after-context=1", "--before-context=1", "TODO", "./"),
        ("-nH", "x", "./"),
    ],
    ids=" ".join,
)
def test_it_takes_habits_of_ripgrep(running: Service, folder: Path, arguments: tuple[str, ...]) -> None:
    status, lines = rg(folder, *arguments)
    done = foldex(running, "grep", *arguments, cwd=folder)
    found = sorted(f"./{line}" if line != "--" else line for line in done.stdout.splitlines())
    assert (done.returncode, found) == (status, sorted(lines))


def test_several_paths_are_searched_in_their_order(running: Service, folder: Path) -> None:
    done = foldex(running, "grep", "-l", "token", "src", "a.md", cwd=folder)
    assert done.stdout.splitlines() == [*(f"src/{name}" for name in ("b.py", "c.txt", "deep/d.py")), "a.md"]
    around = foldex(running, "grep", "-C", "1", "-m", "1", "token", "other.md", "a.md", cwd=folder).stdout
    assert around.count("\n--\n") == 1
    whole = json.loads(foldex(running, "grep", "token", "a.md", "src", "--json", cwd=folder).stdout)
    assert [bool(each["hits"]) for each in whole["items"]] == [True, True]
    assert "hits" in json.loads(foldex(running, "grep", "token", "a.md", "--json", cwd=folder).stdout)


def test_an_error_of_one_path_is_told_and_the_others_are_searched(running: Service, folder: Path) -> None:
    for wrong in ("./gone", "nobody"):
        done = foldex(running, "grep", "-l", "token", "a.md", wrong, "other.md", cwd=folder)
        assert (done.returncode, done.stdout.splitlines()) == (2, ["a.md", "other.md"])
        assert done.stderr.startswith("Error: ")
        refused(foldex(running, "grep", "token", wrong, cwd=folder))
    said = refused(foldex(running, "grep", "(", "a.md", cwd=folder))
    assert "give -F" in said
    assert "fixed: true" not in said
    assert "The pattern is empty" in refused(foldex(running, "grep", "", cwd=folder))
    assert "-v is not supported" in refused(foldex(running, "grep", "-v", "token", cwd=folder))
    assert "pattern" in refused(foldex(running, "grep", "(", "a.md", "other.md", cwd=folder))
    assert "types" in refused(foldex(running, "grep", "x", "-t", "nonsense", cwd=folder))


def test_a_limit_is_told_of_and_not_a_maximum_of_a_file(running: Service, folder: Path) -> None:
    count = len(foldex(running, "grep", "token", "a.md", cwd=folder).stdout.splitlines())
    for limit, more in ((count - 1, True), (count, False)):
        done = foldex(running, "grep", "token", "a.md", "--limit", str(limit), cwd=folder)
        assert ("more hits" in done.stderr) is more
    for options in (("-l",), ("-m", "1")):
        assert foldex(running, "grep", *options, "token", cwd=folder).stderr == ""


def test_a_terminal_shows_matches_in_colour(running: Service, folder: Path) -> None:
    (folder / "colour.txt").write_text("plain\na token, a\x1btoken\nplain\n\n\n\n\ntoken\n")
    done = on_terminal(running, "grep", "token", "colour.txt", "-C", "1", cwd=folder)
    red, end, name = "\x1b[31m\x1b[1mtoken\x1b[0m", "\x1b[0m", "\x1b[35mcolour.txt\x1b[0m"
    first, second, third, *rest = done.stdout.splitlines()
    assert done.returncode == 0
    assert first == f"{name}-\x1b[32m1{end}-plain"
    assert second == f"{name}:\x1b[32m2{end}:a {red}, a\N{REPLACEMENT CHARACTER}{red}"
    assert (third, rest[0]) == (f"{name}-\x1b[32m3{end}-plain", f"\x1b[36m--{end}")
    assert "\x1b" not in foldex(running, "grep", "token", "colour.txt", cwd=folder).stdout
    (folder / "colour.txt").unlink()
