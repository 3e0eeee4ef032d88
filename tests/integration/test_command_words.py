"""The command and agents answer a new folder once its words are found, and say that its meaning follows."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from threading import Timer
from types import SimpleNamespace

import pytest

from api.cli.verbs import ask
from tests.agents import over_stdio
from tests.integration.commanding import INTERRUPTIBLE, environment, foldex
from tests.service import Service, eventually


@pytest.fixture
def halted(running: Service) -> Iterator[None]:
    """No worker does anything until the test ends."""
    worker = running.processes["worker-all"]
    worker.signal(SIGSTOP)
    yield
    worker.signal(SIGCONT)


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    made = root / str(request.node.name)
    made.mkdir()
    (made / "birds.md").write_text("# Birds\n\nAn axolotl is no bird.\n")
    return made


def words_are_found(running: Service, folder: Path) -> bool:
    """Make the task over the folder, if there is one, as if its words were indexed."""
    found = (
        "UPDATE search_index_task t SET status = 'indexing', searchable_at = now(), vectors_due = 1, total_chunks = 1"
        " FROM search_tool s WHERE s.index_id = t.index_id AND s.name = %s RETURNING t.id"
    )
    return bool(running.rows(found, folder.name))


@pytest.mark.usefixtures("halted")
def test_a_new_folder_is_searched_once_its_words_are_found(running: Service, folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "search", "axolotl", str(folder), "--yes"],
        env=environment(running),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            eventually(lambda: words_are_found(running, folder), 30)
            printed, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, "An axolotl is no bird." in printed) == (0, True), said
    # a pipe gets the hits, and standard error what they lack
    assert "0 % of the chunks are found by meaning" in said
    assert "--wait" not in said


@pytest.mark.usefixtures("halted")
def test_a_terminal_is_offered_better_answers(running: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running.local_tool(folder)
    assert words_are_found(running, folder)
    monkeypatch.setattr(ask, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    done = foldex(running, "search", "axolotl", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "Better answers follow soon: search again then, or with --wait."


@pytest.mark.usefixtures("halted")
def test_who_finds_nothing_waits_for_the_meaning(running: Service, folder: Path) -> None:
    running.local_tool(folder)
    assert words_are_found(running, folder)
    resume = Timer(2, running.processes["worker-all"].signal, (SIGCONT,))
    resume.start()
    done = foldex(running, "search", "which animal is it", str(folder))
    resume.join()
    assert (done.returncode, "An axolotl is no bird." in done.stdout) == (0, True), done.stderr


@pytest.mark.usefixtures("halted")
def test_who_finds_nothing_in_time_is_told_so(running: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running.local_tool(folder)
    assert words_are_found(running, folder)
    monkeypatch.setattr(ask, "LATER_SECONDS", 0.5)
    done = foldex(running, "search", "which animal is it", str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"No indexed file of {folder.name} has these words yet." in done.stderr


def test_who_waits_gets_answers_by_meaning(running: Service, folder: Path) -> None:
    done = foldex(running, "search", "which animal is it", str(folder), "--wait", "--yes")
    assert done.returncode == 0, done.stderr
    assert "chunks are found by meaning" not in done.stderr
    status = foldex(running, "status", str(folder))
    assert "ready, 1 file, 1 chunk" in status.stdout


@pytest.mark.usefixtures("halted")
def test_an_agent_waits_for_words_and_hears_what_follows(running: Service, folder: Path) -> None:
    with over_stdio(running, cwd=folder) as agent:
        assert agent.data("index_folder", path=str(folder), wait_seconds=0)["state"] == "pending"
        assert words_are_found(running, folder)
        began = time.monotonic()
        said = agent.ask("index_folder", path=str(folder), wait_seconds=60)
        assert time.monotonic() - began < 30
        assert f"{folder.name} ({folder}): indexing" in said
        assert "All files are found by their words; their meaning follows" in said
        found = agent.ask("search", query="axolotl", folder=folder.name)
        assert "An axolotl is no bird." in found
        assert "0 % of the chunks are found by meaning" in found
