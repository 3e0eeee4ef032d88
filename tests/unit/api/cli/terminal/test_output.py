"""What the command line and agents say of a file."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.agents.find import _listed
from api.cli.terminal import matched_lines, output
from api.cli.terminal.matched_lines import MatchPrinter
from foldex_client.estimate import Range

TOOL = cast("Any", SimpleNamespace(source=None, node_id="folder"))
NOTE = "Not well-formed JSON at line 1, column 2 (cut off). It is read as plain text; repair it."


def file(status: str, reason: str | None, message: str | None, remedy: str | None) -> Any:
    found = {"status": status, "reason": reason, "message": message, "remedy": remedy}
    return SimpleNamespace(file_path="a.json", chunks=2, **found)


@pytest.mark.parametrize(
    ("found", "printed", "listed"),
    [
        (file("indexed", None, None, None), "a.json: indexed, 2 chunks\n", "a.json"),
        (file("indexed", None, NOTE, None), f"a.json: indexed, 2 chunks: {NOTE}\n", f"a.json: indexed: {NOTE}"),
        (
            file("failed", "parse_failed", "It is damaged.", "Repair it."),
            "a.json: failed (parse_failed): It is damaged. Repair it.\n",
            "a.json: failed: (parse_failed) It is damaged. Repair it.",
        ),
        (file("pending", None, None, None), "a.json: pending, 2 chunks\n", "a.json: pending"),
    ],
)
def test_a_file_is_shown_with_what_happened_to_it(
    found: Any, printed: str, listed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "path_in", lambda _, path: path)
    output.print_file(TOOL, found)
    assert capsys.readouterr().out == printed
    assert _listed(found).head == listed


@pytest.mark.parametrize(("page", "place"), [(None, "manual.pdf:9"), (2, "manual.pdf p. 2")])
def test_a_hit_in_a_document_is_told_by_its_page(
    page: int | None, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "path_in", lambda _, path: path)
    nothing = dict.fromkeys(("symbol", "json_pointer", "before", "after", "raptor_summary_preview"))
    found = {"title": "Pumps", "score": 0.5, "chunk_text": "It leaks.", "start_line": 9, "page": page, **nothing}
    output.print_hit(TOOL, cast("Any", SimpleNamespace(file_path="manual.pdf", **found)), 0, "leak", is_calibrated=True)
    assert capsys.readouterr().out == f"{place}: 0.50 Pumps\n    It leaks.\n"


def test_a_score_that_is_no_chance_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "path_in", lambda _, path: path)
    nothing = dict.fromkeys(("symbol", "json_pointer", "before", "after", "raptor_summary_preview", "page"))
    found = {"file_path": "a.md", "title": "Pumps", "score": 0.5, "chunk_text": "It leaks.", "start_line": 9, **nothing}
    output.print_hit(TOOL, cast("Any", SimpleNamespace(**found)), 0, "leak", is_calibrated=False)
    output.print_hit(TOOL, cast("Any", SimpleNamespace(**found | {"title": None})), 0, "leak", is_calibrated=False)
    assert capsys.readouterr().out == "a.md:9: Pumps\n    It leaks.\na.md:9:\n    It leaks.\n"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("who pays the line", ["…", "the line 15", "the tenant pays", *(f"the line {n}" for n in (17, 18, 19))]),
        ("nowhere", [f"the line {n}" for n in range(6)]),
        ("Tenant", ["…", "the line 15", "the tenant pays", *(f"the line {n}" for n in (17, 18, 19))]),
    ],
)
def test_the_lines_with_rare_words_are_shown(query: str, shown: list[str]) -> None:
    lines = ["the tenant pays" if n == 16 else f"the line {n}" for n in range(30)]
    found = [line for line, _ in output.shown_lines(hit(lines), query, 0)]
    assert set(shown) <= set(found)
    assert (len(found), found[0]) == (output.SHOWN_LINES + (shown[0] == "…"), shown[0])


def test_a_short_text_is_shown_whole() -> None:
    assert output.shown_lines(hit(["a", "b"]), "b", 0) == [("a", True), ("b", True)]
    assert output.shown_lines(hit([]), "b", 0) == [("", True)]


def hit(lines: Sequence[str], first: int = 1, **around: object) -> Any:
    text = "\n".join(lines)
    return SimpleNamespace(**{"chunk_text": text, "start_line": first, "before": None, "after": None, **around})


@pytest.mark.parametrize("context", [0, 1, 2, 5, 50])
def test_context_is_lines_around_the_best_ones(context: int) -> None:
    text = ["" if n in {45, 72} else f"line {n}" for n in range(1, 101)]
    text[49] = "the tenant pays"
    # the chunks around it, of which one ends with a blank line that no chunk has
    before = [hit(text[20:40], 21), hit(text[40:44], 41)]
    found = hit(text[45:55], 46, before=before, after=[hit(text[55:60], 56), hit(text[60:90], 61)])
    shown = output.shown_lines(found, "tenant", context)
    best = [line for line, is_best in shown if is_best and line != "…"]
    assert best == text[48:54]
    around = [line for line, _ in shown if line != "…"]
    assert around == text[max(20, 48 - context) : min(90, 54 + context)]
    assert (shown[0] == ("…", True)) is (context < 3)


@pytest.mark.parametrize(
    ("high", "cost", "said"),
    [
        (0, 0.0, "Nothing is to be embedded, so it costs nothing.\n"),
        (30, 0.0, "1 token (1 to 30) in 1 request\nCost with local/m: free\n"),
        (30, 0.02, "1 token (1 to 30) in 1 request\nCost with local/m: $0.0100 ($0.0100 to $0.0200)\n"),
        (30, None, "1 token (1 to 30) in 1 request\nCost with local/m: unknown\n"),
    ],
)
def test_an_estimate_says_in_words_what_costs_nothing(
    high: float, cost: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, requests = (Range(expected=1.0, low=1.0, high=each) for each in (high, 1.0))
    price = None if cost is None else Range(expected=cost / 2, low=cost / 2, high=cost)
    fields = {"total_files": 1, "total_bytes": 9, "unchanged_files": 0, "ignored": {}, "skipped": {}, "notes": []}
    found = {"tokens": tokens, "requests": requests, "cost": price, "model": "local/m", "by_granularity": {}, **fields}
    output.print_estimate(cast("Any", SimpleNamespace(**found)))
    assert capsys.readouterr().out == f"1 file, 0.0 MB\n{said}"


def test_a_multi_line_match_tells_its_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matched_lines, "path_in", lambda _, path: path)
    fields = {"file_path": "a.py", "file_id_path": "/a.py", "before": [], "after": ["last"], "spans": None}
    for rest, printed in (
        ([], "a.py:4:def get( … to line 6\n"),
        (["    x,"], "a.py:4:def get(\na.py:5:    x, … to line 6\n"),
        (["    x,", "):"], "a.py:4:def get(\na.py:5:    x,\na.py:6:):\n"),
    ):
        found = [SimpleNamespace(line=4, end_line=6, preview="def get(", rest=rest, **fields)]
        MatchPrinter("lines", has_context=True).print(TOOL, cast("Any", found))
        assert capsys.readouterr().out == f"{printed}a.py-7-last\n"


@pytest.mark.parametrize("told", [(), {"Rules hide nothing."}])
def test_a_warning_that_was_told_is_not_repeated(told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tool = cast("Any", SimpleNamespace(source=None, node_id="folder", name="docs", tool_id="1"))
    now = SimpleNamespace(
        status="ready", ended=True, progress=1.0, total_chunks=None, error=None, warning="Rules hide nothing."
    )
    output.print_status(tool, cast("Any", now), told)
    assert capsys.readouterr().out.count("Rules hide nothing.") == (not told)
