"""What the command line and agents say of a file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.agents.find import _listed
from api.cli.terminal import output

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
    output.file(TOOL, found)
    assert capsys.readouterr().out == printed
    assert _listed(found).head == listed


@pytest.mark.parametrize(("page", "place"), [(None, "manual.pdf:9"), (2, "manual.pdf p. 2")])
def test_a_hit_in_a_document_is_told_by_its_page(
    page: int | None, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "path_in", lambda _, path: path)
    nothing = dict.fromkeys(("symbol", "json_pointer", "before", "after", "raptor_summary_preview"))
    found = {"title": "Pumps", "score": 0.5, "chunk_text": "It leaks.", "start_line": 9, "page": page, **nothing}
    output.hit(TOOL, cast("Any", SimpleNamespace(file_path="manual.pdf", **found)), 0, "leak", is_calibrated=True)
    assert capsys.readouterr().out == f"{place}: 0.50 Pumps\n    It leaks.\n"


def test_a_score_that_is_no_chance_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "path_in", lambda _, path: path)
    nothing = dict.fromkeys(("symbol", "json_pointer", "before", "after", "raptor_summary_preview", "page"))
    found = {"file_path": "a.md", "title": "Pumps", "score": 0.5, "chunk_text": "It leaks.", "start_line": 9, **nothing}
    output.hit(TOOL, cast("Any", SimpleNamespace(**found)), 0, "leak", is_calibrated=False)
    output.hit(TOOL, cast("Any", SimpleNamespace(**found | {"title": None})), 0, "leak", is_calibrated=False)
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
    found = output.best_lines(lines, query)
    assert set(shown) <= set(found)
    assert (len(found), found[0]) == (output.SHOWN_LINES + (shown[0] == "…"), shown[0])


def test_a_short_text_is_shown_whole() -> None:
    assert output.best_lines(["a", "b"], "b") == ["a", "b"]
    assert output.best_lines([], "b") == []
