"""The bar that `foldex index` draws."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from api.cli.progress import Bar
from foldex_client import Status


def status(**fields: Any) -> Status:
    ids = dict.fromkeys(("tool_id", "task_id", "kind", "namespace"), "x")
    counts = (
        "total_files indexed_files skipped_files failed_files removed_files held_removals total_bytes done_bytes "
        "total_chunks embedded_chunks reused_chunks tokens"
    )
    nothing = ("folder_node_id", "eta_seconds", "warning", "error", "error_code", "started_at", "finished_at")
    given = {**ids, **dict.fromkeys(counts.split(), 0), **dict.fromkeys(nothing), "status": "indexing", "progress": 0.5}
    given |= {"ignored": {}, "listing": False, "rerun": False, "created_at": datetime.now(UTC)}
    return Status(**given | fields)


@pytest.mark.parametrize(("listing", "more"), [(False, ""), (True, "+")])
def test_a_terminal_is_told_files_megabytes_speed_and_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, listing: bool, more: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    counts = {
        "total_files": 9,
        "indexed_files": 4,
        "skipped_files": 1,
        "total_bytes": 48_260_000,
        "done_bytes": 900_000,
    }
    Bar("docs")(status(**counts, eta_seconds=61, listing=listing))
    drawn = capsys.readouterr().err.strip()
    assert drawn == f"docs [##########..........]  50%  5/9{more} files  0.9/48.3{more} MB  0 chunks/s  1 min 1 s left"


def test_without_a_terminal_each_warning_is_told_once_and_nothing_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar("docs")
    for warning in (None, "Waiting: the provider is down.", "Waiting: the provider is down."):
        bar(status(warning=warning))
    assert capsys.readouterr().err == "Waiting: the provider is down.\n"
