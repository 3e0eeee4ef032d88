"""Where the matches of a line are: the same parts that ripgrep finds."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from api.search.grep import ripgrep
from api.search.grep.lines import MAX_SHOWN_CHARACTERS, matching_lines, shown, spans_shown
from api.search.grep.pattern import compiled_pattern
from schemas.queries.grep import MAX_SPANS, Grep

PATTERNS = (
    *("a", "aa", "a+", "a*", "[ab]+", r"\w+", r"\bab", r"b\b", "^a", "a$", "é|語", "(?i)A", "a|ab", r"\s", "x*", "b?c"),
    *("a.c", r"[^a]+", "aba", r"\d+"),
)
PIECES = ("a", "b", "ab", "aba", "c", "é", "語", "🎉", " ", "-", "_", "1", "22", "x")


def nothing() -> None:
    """Never reach the time limit."""


def found(text: str, request: Grep) -> dict[int, list[str]]:
    """The parts of each line that match."""
    pattern, data = compiled_pattern(request), text.encode()
    lines = {}
    for line in matching_lines(data, pattern, nothing):
        preview, column = shown(data[line.start : line.end], line.match_start)
        spans = spans_shown(data, line, pattern, nothing)
        assert spans == sorted(spans, key=lambda span: (span.start, span.end))
        if spans and not preview.startswith("…"):
            assert spans[0].start >= column - 1
        lines[line.number] = [preview[span.start : span.end] for span in spans]
    return lines


def _filled(lines: dict[int, list[str]]) -> dict[int, list[str]]:
    return {number: list(filter(None, parts)) for number, parts in lines.items()}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("word", [False, True])
def test_spans_are_those_of_ripgrep(tmp_path: Path, pattern: str, word: bool) -> None:
    program = ripgrep.program()
    assert program is not None
    chance = random.Random(pattern)
    lines = ["".join(chance.choices(PIECES, k=chance.randrange(9))) for _ in range(200)]
    (tmp_path / "text").write_text("\n".join(lines))
    options = ["-w"] if word else []
    command = [program, "--no-config", "--json", *options, "-e", pattern, str(tmp_path / "text")]
    events = map(json.loads, subprocess.run(command, capture_output=True, check=False).stdout.splitlines())
    expected = {
        event["data"]["line_number"]: [part["match"]["text"] for part in event["data"]["submatches"]]
        for event in events
        if event["type"] == "match"
    }
    request = Grep(pattern=pattern, regex=True, case_sensitive=True, word=word)
    # rg also finds matches of no characters within a character of several bytes
    assert _filled(found("\n".join(lines), request)) == _filled(expected)


@pytest.mark.parametrize("before", [0, 100, 120, 121, 499, 500, 501, 5000])
@pytest.mark.parametrize("after", [0, 378, 379, 380, 500, 5000])
def test_spans_of_a_line_that_is_cut_are_in_what_is_shown(before: int, after: int) -> None:
    text = "é" * before + "Token" + "語" * after + "Token"
    (parts,) = found(text, Grep(pattern="token")).values()
    assert parts[0] == "Token"
    assert len(parts) <= 2
    assert all("Token".startswith(part) for part in parts[1:])
    (whole,) = found(text, Grep(pattern="Token.*", regex=True)).values()
    assert len(whole[0]) <= MAX_SHOWN_CHARACTERS


@pytest.mark.parametrize("count", [MAX_SPANS - 1, MAX_SPANS, MAX_SPANS + 1])
def test_spans_are_bounded(count: int) -> None:
    (parts,) = found("ab" * count, Grep(pattern="a")).values()
    assert len(parts) == min(count, MAX_SPANS)


def test_a_match_over_lines_is_shown_to_the_end_of_its_first_line() -> None:
    lines = found("def get(\n    self, x)\n", Grep(pattern=r"get\(\s*self", regex=True, multiline=True))
    assert lines == {1: ["get("]}


def test_matches_of_no_characters_have_spans() -> None:
    assert found("axa\n\n", Grep(pattern="x*", regex=True)) == {1: ["", "x", ""], 2: [""]}
