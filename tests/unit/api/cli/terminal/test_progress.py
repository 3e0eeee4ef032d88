"""The bar that `foldex index` draws, and how its wait ends."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from api.cli.invocation import Invocation, VerbFailed
from api.cli.service.connection import Connection
from api.cli.terminal import progress
from api.cli.terminal.progress import ProgressLine, duration, wait
from foldex_client import Foldex, Status, Tool
from tests.unit.client.conftest import Script
from tests.unit.client.test_contract import sample
from tests.unit.client.test_waiting import told

URL = "http://foldex.invalid"
TOOL = {**sample({"$ref": "/Tool"}, sparse=True), "name": "docs", "updating": None, "update_error": None}
UPDATING = {key: TOOL[key] for key in ("config", "index", "namespace")}
UPDATING |= {"task_id": "t", "status": "indexing", "progress": 0.25}


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
        "searchable_files": 8,
    }
    ProgressLine("docs")(status(**counts, eta_seconds=61, words_eta_seconds=2, listing=listing))
    drawn = capsys.readouterr().err.strip()
    assert drawn == (
        f"docs  words [##########] 100%, 2 s  meaning [#####.....]  50%, 1 min 1 s  "
        f"5/9{more} files  0.9/48.3{more} MB  0 chunks/s"
    )


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ({}, 0.0),
        ({"total_files": 8, "searchable_files": 2}, 0.25),
        ({"total_files": 8, "searchable_files": 2, "skipped_files": 1, "failed_files": 1}, 0.5),
        # files that are gone may still count
        ({"total_files": 8, "searchable_files": 9}, 1.0),
        ({"total_files": 8, "searchable_at": datetime.now(UTC)}, 1.0),
    ],
)
def test_words_are_done_for_files_that_are_searchable_or_never_will_be(counts: dict[str, Any], share: float) -> None:
    assert status(**counts).words_progress == share


@pytest.mark.parametrize("columns", [20, 40, 60, 61, 80, 100, 200])
@pytest.mark.parametrize("name", ["docs", "a folder with quite a long name, as some have"])
def test_a_narrow_terminal_keeps_times_and_the_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, name: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    counts = {
        "total_files": 123_456,
        "indexed_files": 99_999,
        "total_bytes": 48_260_000_000,
        "searchable_files": 99_999,
    }
    ProgressLine(name)(status(**counts, eta_seconds=45_000, words_eta_seconds=4_000))
    drawn = capsys.readouterr().err
    assert len(drawn.removeprefix("\r")) == columns - 1
    if columns >= 60:
        assert "12 h 30 min" in drawn
        assert "0 chunks/s" in drawn
        assert drawn.removeprefix("\r").startswith(name[:4])
    assert ("MB" in drawn) == (columns == 200)


@pytest.mark.parametrize(
    ("chunks", "seconds", "rate"),
    [
        (0, 60, "0 chunks/s"),
        (10, 60, "10 chunks/min"),
        (29, 60, "29 chunks/min"),
        (30, 60, "30 chunks/min"),
        (1, 60, "1 chunk/min"),
        (31, 60, "1 chunk/s"),
        (90, 60, "2 chunks/s"),
    ],
)
def test_a_slow_rate_is_told_by_the_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, chunks: int, seconds: int, rate: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    times = iter([0.0, 0.0, float(seconds)])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    bar = ProgressLine("docs")
    bar(status())
    capsys.readouterr()
    bar(status(embedded_chunks=chunks))
    assert capsys.readouterr().err.strip().endswith(f"  {rate}")


def test_no_time_is_told_while_somebody_else_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = ProgressLine("docs")
    bar(status(eta_seconds=61, words_eta_seconds=2))
    assert "1 min 1 s" in capsys.readouterr().err
    bar(status(eta_seconds=61, words_eta_seconds=2, warning="The provider is down."))
    assert "1 min 1 s" not in capsys.readouterr().err


def test_without_a_terminal_each_warning_is_told_once_and_nothing_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressLine("docs")
    for warning in (None, "Waiting: the provider is down.", "Waiting: the provider is down."):
        bar(status(warning=warning))
    assert capsys.readouterr().err == "Waiting: the provider is down.\n"


def waited(*replies: httpx.Response) -> Status:
    """What a wait returns for a service with these answers. Raises `VerbFailed`."""
    service = Connection(URL, None, Invocation(server=None, key=None, project=None, as_json=False))
    service.__dict__["foldex"] = Foldex(URL, transport=httpx.MockTransport(Script(*replies)))
    try:
        return wait(service, Tool.model_validate(TOOL))
    finally:
        service.close()


def tool(**fields: Any) -> httpx.Response:
    return httpx.Response(200, json={**TOOL, **fields})


def test_a_wait_lasts_until_a_changed_config_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0)
    assert waited(told("ready", namespace="old"), tool()).namespace == "old"
    replies = (told("ready", namespace="old"), tool(updating=UPDATING), tool(), told("ready", namespace="new"))
    assert waited(*replies).namespace == "new"


def test_a_wait_tells_the_run_that_it_waited_for() -> None:
    first: dict[str, Any] = {"task_id": "first", "embedded_chunks": 3}
    next_: dict[str, Any] = {"task_id": "next", "embedded_chunks": 0}
    runs = [told("ready", 1, **run).json() for run in (next_, first)]
    listed = httpx.Response(200, json={"items": runs, "next_cursor": None})
    done = waited(told("indexing", **first), told("ready", 1, **next_), listed, tool())
    assert (done.task_id, done.embedded_chunks) == ("first", 3)
    cancelled = httpx.Response(
        200, json={"items": [*runs[:1], {**runs[1], "status": "cancelled"}], "next_cursor": None}
    )
    assert waited(told("indexing", **first), told("ready", 1, **next_), cancelled, tool()).task_id == "next"


def test_a_wait_for_what_fails_ends_as_an_error() -> None:
    with pytest.raises(VerbFailed, match="docs keeps its old config: It was cancelled"):
        waited(told("ready"), tool(update_error="It was cancelled."))
    for word in ("error", "cancelled"):
        with pytest.raises(VerbFailed, match="docs is not indexed: It broke"):
            waited(told(word, error="It broke.", indexed_files=0, searchable_files=0))
        with pytest.raises(VerbFailed, match="docs is not up to date, but what is indexed answers: It broke"):
            waited(told(word, error="It broke.", indexed_files=0, searchable_files=1))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(59.4, "59 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (7325, "2 h 2 min")],
)
def test_seconds_are_told_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
