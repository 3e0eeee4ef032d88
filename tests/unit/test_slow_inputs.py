"""A random search for patterns and paths that take more time than their length accounts for.

It takes 3 s of processor time; `PATTERN_SECONDS` allows more, and `PATTERN_SEED` repeats a search.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from api.search.grep.lines import matching_lines
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import FileScope
from api.search.text.path_pattern import PathPattern
from schemas.errors import Invalid
from schemas.queries.grep import Grep
from tests.pumps import grows_too_fast
from worker.ignore import IgnoreFile, Rules, Trail, compiled_glob, name_matches
from worker.ignore.patterns import MAX_PATTERN

SECONDS = float(os.environ.get("PATTERN_SECONDS") or 3)
SEED = os.environ.get("PATTERN_SEED") or time.strftime("%Y-%m-%d")

GLOBS = [
    "*",
    "**",
    "?",
    "a",
    "b",
    "ab",
    "[ab]",
    "[!a]",
    "[[:alpha:]]",
    "/",
    "/**/",
    "*a",
    "a*",
    "\\*",
    "{a,b}",
    "é",
    ".",
]
NAMES = ["a", "b", "ab", "é", ".", "*", "A"]
EXPRESSIONS = [
    "a",
    "b",
    "(a|aa)+",
    "(a*)*",
    "[^b]*",
    r"\w+",
    r"\b",
    ".*",
    "$",
    "^",
    "x?",
    r"\s",
    "(?i)",
    r"\pL",
    r"\Qa\E",
]

Look = Callable[[str], object]


def never() -> None:
    """Interrupt no search."""


def glob(chance: random.Random) -> str:
    """A pattern: often one part repeated, as only that is slow."""
    part = "".join(chance.choices(GLOBS, k=chance.choice([1, 2, 3])))
    count = chance.choice([1, 2, 8, MAX_PATTERN // len(part) - 10])
    return ("".join(chance.choices(GLOBS, k=2)) + part * max(1, count) + chance.choice(["", "b", "/b", "*b", "[x]"]))[
        :MAX_PATTERN
    ]


def by_filter(chance: random.Random) -> Look:
    return PathPattern("path", glob(chance)).anywhere()


def by_glob(chance: random.Random) -> Look:
    # a new one for each path, as it keeps what it knows of directories
    pattern = glob(chance)
    compiled_glob("glob", pattern)
    return lambda path: compiled_glob("glob", pattern).matches(path)


def by_scope(chance: random.Random) -> Look:
    return FileScope(Grep(pattern="a", glob=chance.choice(["", "!"]) + glob(chance)[:1000])).takes


def by_rules(chance: random.Random) -> Look:
    rules = Rules(*([glob(chance) for _ in range(chance.choice([1, 5]))] for _ in "12"))
    lines = "\n".join(glob(chance) for _ in range(chance.choice([1, 5]))).encode("utf-8", "surrogateescape")

    def judged(path: str) -> object:
        *folders, name = path.split("/")

        def load(way: tuple[str, ...]) -> Iterator[IgnoreFile]:
            yield from [(".gitignore", lines)] if not way else []

        trail = Trail(rules, str, load)
        # what a walk pays for each directory is linear in its path, so only a wide walk is linear in all
        return trail.pruned(tuple(folders[:50])) or trail.ignored(name)

    return judged


def by_name(chance: random.Random) -> Look:
    pattern = glob(chance)
    return lambda name: name_matches(pattern, name)


def by_grep(chance: random.Random) -> Look:
    flags = {name: chance.random() < 0.3 for name in ("word", "case_sensitive")}
    expression = "".join(chance.choices(EXPRESSIONS, k=chance.choice([1, 3, 8])))
    found = compiled_pattern(Grep(pattern=expression, regex=True, **flags))
    return lambda text: sum(1 for _ in matching_lines(text.encode(), found, never))


def path(chance: random.Random) -> Callable[[int], str]:
    begin, part = ("".join(chance.choices([*NAMES, "/"], k=chance.choice([1, 2, 3]))) for _ in "12")
    end = chance.choice(["", "b", "c", "/c"])
    return lambda size: begin + part * (size // len(part)) + end


#: How each is tried, over how many characters.
KINDS: list[tuple[Callable[[random.Random], Look], int]] = [
    (by_filter, 4_000),
    (by_glob, 4_000),
    (by_scope, 4_000),
    (by_rules, 4_000),
    (by_name, 4_000),
    (by_grep, 200_000),
]


@pytest.mark.parametrize("expression", ["a", "a|c"])
def test_many_matches_in_a_line_take_time_with_its_length(expression: str) -> None:
    found = compiled_pattern(Grep(pattern=expression, regex=True, multiline=True))

    def lines(text: str) -> int:
        return sum(1 for _ in matching_lines(text.encode(), found, never))

    assert lines("b" * 100 + "a" * 100) == 1
    assert not grows_too_fast(lines, lambda size: "b" * 150 * size + "a" * size, 20_000)


@pytest.mark.timeout(60 + 20 * SECONDS)
def test_no_random_pattern_takes_a_power_of_the_text() -> None:
    chance = random.Random(SEED)
    end, tried = time.process_time() + SECONDS, 0
    while time.process_time() < end:
        state = chance.getstate()
        make, size = KINDS[tried % len(KINDS)]
        with suppress(Invalid):
            look, text = make(chance), path(chance)
            if grows_too_fast(look, text, size):
                chance.setstate(state)
                again = glob(chance) if make is not by_grep else ""
                pytest.fail(f"PATTERN_SEED={SEED}, number {tried}: {make.__name__} {again!r} over {text(40)!r}")
        tried += 1
    assert tried > 50
