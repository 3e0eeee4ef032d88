"""Flower shows what Foldex does: tool, task, files done, and the files a slice took."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from redis import Redis

from api.stack import programs
from api.stack.processes import running, server_port
from tests.fakes.chat import ChatFake
from tests.service import TOOLS, NewService, Service, checked, eventually, service
from worker.app import BULK, make_app
from worker.settings import LOCAL_MODEL
from worker.state.index.tasks import SMALL_TASK
from worker.tree.build import MIN_SECONDS

FILES = 12
RED = re.compile(r"rgb\(2\d\d, \d\d?, \d\d?\)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for number in range(FILES):
        (made / f"note-{number}.md").write_text(f"# Note {number}\n\nSomething about number {number}.\n")
    return made


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatFake]:
    with ChatFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def started(new_service: NewService, folder: Path, chat: ChatFake) -> Iterator[tuple[Service, str]]:
    """A service with Flower beside it, and Flower's address."""
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(folder), "VECTOR_STORE": "lancedb"}
    env |= chat.env
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
    rows = page.get_by_role("row").filter(has_text=task)

    def counts() -> list[int]:
        show_tasks(page, flower)
        rows.first.wait_for()
        return [int(count) for text in rows.all_inner_texts() for count in re.findall(r"'claimed': (\d+)", text)]

    # the task is ready before the event of its last message arrives
    # a file is claimed for its words, and again for its vectors, as none has been timed; a plan may index, too
    eventually(lambda: sum(counts()) == 2 * FILES, 60, lambda: str(rows.all_inner_texts()))
    # a claim may be sent before its files are counted
    said = re.compile(f"0 of (0|{FILES}) files done, tool {tool}, task {task}")
    expect(rows.filter(has_text="foldex.index").filter(has_text=said)).not_to_have_count(0, timeout=20_000)
    plan = page.get_by_role("row").filter(has_text="foldex.plan").first
    expect(plan).to_contain_text(f"tool {tool}, task {task}")
    expect(plan).to_contain_text("SUCCESS")


def show_tasks(page: Page, flower: str) -> None:
    page.goto(f"{flower}/tasks")
    page.get_by_role("combobox").select_option("100")


def sweeps(service: Service) -> int:
    with make_app(service.env["CELERY_BROKER_URL"]) as app:
        told = app.control.inspect(timeout=5, limit=2).stats() or {}
    return sum(worker["total"].get("foldex.sweep", 0) for worker in told.values())


def failed_runs(page: Page, flower: str, error: str) -> set[str]:
    """The ids of the runs that failed with an error."""
    show_tasks(page, flower)
    rows = page.get_by_role("row").filter(has_text="FAILURE").filter(has_text=error)
    # the slice that finished the file failed, and if another run closed the task, that one as well
    expect(rows).not_to_have_count(0, timeout=20_000)
    expect(rows.first.get_by_text("FAILURE")).to_have_css("background-color", RED)
    return {text.split()[-1] for text in rows.all_inner_texts()}


def test_a_failed_run_is_red_and_sweeps_are_not_shown(started: tuple[Service, str], page: Page, folder: Path) -> None:
    service, flower = started
    ready = service.local_tool(folder)
    service.wait(ready)
    (folder / "broken").mkdir()
    (folder / "broken" / "a.pdf").write_text("%PDF-1.7")
    error = f"no_file_indexed: {service.wait(service.local_tool(folder / 'broken'), 'error')['error']}"
    before = sweeps(service)
    # the events of both failed runs have come by then
    eventually(lambda: sweeps(service) >= before + 2, 60, service.logs)
    failed = failed_runs(page, flower, error)
    eventually(lambda: sweeps(service) >= before + 6, 60, service.logs)

    # nothing ran again
    assert failed_runs(page, flower, error) == failed
    assert len(failed) <= 2
    rows = page.get_by_role("row").filter(has_text="foldex.")
    assert rows.filter(has_text=ready).filter(has_text="SUCCESS").count() > 0
    # plans, slices and compactions of the two runs, and nothing that comes again and again
    assert {text.split()[0] for text in rows.all_inner_texts()} == {"foldex.plan", "foldex.index", "foldex.optimize"}
    page.goto(f"{flower}/task/{failed.pop()}")
    expect(page.get_by_text(error).first).to_be_visible()
    assert "most recent call" not in page.content()


def test_workers_are_online(started: tuple[Service, str], page: Page) -> None:
    _, flower = started
    page.goto(f"{flower}/workers")
    for queue in ("fast", "bulk"):
        expect(page.get_by_role("row").filter(has_text=re.compile(f"{queue}@")).first).to_contain_text("Online")


def plant(service: Service, tool: str, **raptor: object) -> None:
    """Start the build of a tree."""
    given = {"enabled": True, "cluster_method": "adjacent", "summary_num_workers": 1, **raptor}
    checked(service.client.patch(f"{TOOLS}/{tool}", json={"config": {"raptor": given}}), 202)


def test_the_build_of_a_tree_shows_its_progress(
    started: tuple[Service, str], chat: ChatFake, page: Page, folder: Path
) -> None:
    service, flower = started
    tool = service.local_tool(folder)
    service.wait(tool)
    ((index,),) = service.rows("SELECT index_id FROM search_tool WHERE id = %s", tool)
    hold = chat.holds.add("chat", "Summary")
    plant(service, tool, min_cluster_size=2)
    # the first layer is summarised, and the second one waits
    eventually(lambda: bool(hold.arrived), 60, service.logs)
    arrived = time.monotonic()
    # a build lets other work on its queue go first, and its next message says how far it came
    for number in range(SMALL_TASK + 1):
        note = folder / "large" / f"note-{number}.md"
        note.parent.mkdir(exist_ok=True)
        note.write_text(f"The note {number}.")
    large = service.local_tool(folder / "large")
    with Redis.from_url(service.env["CELERY_BROKER_URL"]) as broker:
        eventually(lambda: bool(broker.llen(BULK)), 60, service.logs)
    # no slice ends sooner
    eventually(lambda: time.monotonic() > arrived + MIN_SECONDS, 60)
    hold.release()
    rows = page.get_by_role("row").filter(has_text="foldex.tree").filter(has_text=f"index {index}")

    def shown() -> bool:
        show_tasks(page, flower)
        done = rows.filter(has_text="SUCCESS").all_inner_texts()
        return all(any(re.search(progress, row) for row in done) for progress in (r"\(0 of 0 ", r"\([1-9] of \d "))

    eventually(shown, 60, lambda: f"{rows.all_inner_texts()}\n{service.logs()}")
    service.wait(large)


def test_a_tree_that_fails_is_red_with_its_reason(started: tuple[Service, str], page: Page, folder: Path) -> None:
    service, flower = started
    tool = service.local_tool(folder)
    service.wait(tool)
    plant(service, tool, summary_prompt="TALK-NONSENSE {text}", min_cluster_size=2)
    status: dict[str, object] = {}

    def has_failed() -> bool:
        status.update(service.get(f"{TOOLS}/{tool}/raptor/status"))
        return status["indexing_status"] == "error"

    eventually(has_failed, 60, service.logs)
    shown = f"llm_failed: {status['error']}"
    (failed,) = failed_runs(page, flower, shown)
    page.goto(f"{flower}/task/{failed}")
    expect(page.get_by_text(shown).first).to_be_visible()
    assert "most recent call" not in page.content()
