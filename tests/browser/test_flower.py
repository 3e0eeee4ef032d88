"""Flower shows what Foldex does: tool, task, files done, and the files a slice took."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from api.stack import programs
from api.stack.processes import running, server_port
from tests.service import NewService, Service, service
from worker.settings import LOCAL_MODEL

FILES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for number in range(FILES):
        (made / f"note-{number}.md").write_text(f"# Note {number}\n\nSomething about number {number}.\n")
    return made


@pytest.fixture(scope="module")
def started(new_service: NewService, folder: Path) -> Iterator[tuple[Service, str]]:
    """A service with Flower beside it, and Flower's address."""
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(folder), "VECTOR_STORE": "lancedb"}
    port = server_port()
    with (
        new_service(partial(service, bulk=1), **env) as up,
        running(programs.flower(port, up.env), up.home),
    ):
        yield up, f"http://127.0.0.1:{port}"


def test_tasks_tell_tool_task_and_files(started: tuple[Service, str], page: Page, folder: Path) -> None:
    service, flower = started
    tool = service.local_tool(folder)
    task = service.wait(tool)["task_id"]
    page.goto(f"{flower}/tasks")
    # sweeps fill the first ten rows in seconds
    page.get_by_role("combobox").select_option("100")
    row = page.get_by_role("row").filter(has_text="foldex.index").filter(has_text=f"'claimed': {FILES}")
    # a claim may be sent before its files are counted
    said = re.compile(f"0 of (0|{FILES}) files done, tool {tool}, task {task}")
    expect(row.first).to_contain_text(said, timeout=20_000)
    plan = page.get_by_role("row").filter(has_text="foldex.plan").first
    expect(plan).to_contain_text(f"tool {tool}, task {task}")
    expect(plan).to_contain_text("SUCCESS")


def test_workers_are_online(started: tuple[Service, str], page: Page) -> None:
    _, flower = started
    page.goto(f"{flower}/workers")
    for queue in ("fast", "bulk"):
        expect(page.get_by_role("row").filter(has_text=re.compile(f"{queue}@")).first).to_contain_text("Online")
