"""Changes in watched folders are picked up by one process at a time, even if it dies."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any
from uuid import uuid4

import pytest

from api.stack import embedded, programs
from api.stack.processes import Process, start, stop
from tests.integration.provider.test_auto_reindex import appears, runs, settled
from tests.integration.test_index_life import found, write
from tests.service import PROJECT, TOOLS, NewService, Service, checked, environment, eventually
from worker.settings import LOCAL_MODEL, Settings
from worker.state.exclusive import exclusive_connection
from worker.upkeep.watch import WATCH

#: Minimum seconds between two runs that a watch starts.
REST = 3


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    """A service without a watching process."""
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root), "WATCH_REST_SECONDS": str(REST)}
    with new_service(**env) as started:
        yield started


@contextmanager
def watcher(running: Service, name: str = "watch") -> Iterator[Process]:
    """A process that watches, or waits for its turn."""
    home = running.home / name
    process = start(programs.watch(running.env), home)
    try:
        yield process
    finally:
        stop([process])


@pytest.fixture(scope="module")
def watching(running: Service) -> Iterator[Process]:
    """One for all tests but the first, which starts and kills its own."""
    with watcher(running) as process:
        yield process


@pytest.fixture
def folder(root: Path) -> Path:
    return write(root / f"f{uuid4().hex[:8]}", apples="# apples\n\nThe appleword.", birds="# birds\n\nThe birdword.")


def watched(running: Service, folder: Path, **config: Any) -> str:
    """A tool over a folder that is already being watched."""
    tool = running.local_tool(folder, config={"watch": True, **config})
    eventually(lambda: taken_up(running, tool), 30, lambda: said(running))
    running.wait(tool)
    settled(running, tool)
    return tool


def taken_up(running: Service, tool: str) -> bool:
    """Whether the folder was scanned since it is watched."""
    took = "SELECT 1 FROM search_index_change c JOIN search_tool s ON s.index_id = c.index_id"
    return bool(running.rows(f"{took} WHERE s.id = %s AND c.ran_at IS NOT NULL", tool))


def said(running: Service) -> str:
    return "\n".join(path.read_text()[-3000:] for path in running.home.glob("watch*/log/*.log"))


def test_another_process_takes_over_and_nothing_between_is_missed(running: Service, folder: Path) -> None:
    with ExitStack() as open_:
        first = open_.enter_context(watcher(running, "watch1"))
        tool = watched(running, folder)
        closed = write(folder.parent / uuid4().hex, fish="# fish\n\nThe fishword.")
        watched(running, closed)
        second = open_.enter_context(watcher(running, "watch2"))
        eventually(lambda: "waiting" in said(running), 30, lambda: said(running))
        kill(first)
        write(folder, cars="# cars\n\nThe carword.")
        appears(running, tool, "carword", "cars.md")
        kill(second)
        (folder / "birds.md").unlink()
        write(folder, dogs="# dogs\n\nThe dogword.")
        # an unreadable folder does not keep others from being watched
        closed.rename(folder.parent / uuid4().hex)
        closed.symlink_to(running.home)
    with watcher(running, "watch3"):
        appears(running, tool, "dogword", "dogs.md")
        appears(running, tool, "birdword")
        write(folder, eels="# eels\n\nThe eelword.")
        appears(running, tool, "eelword", "eels.md")


def kill(process: Process) -> None:
    process.child.send_signal(SIGKILL)
    process.child.wait()


def test_what_is_made_edited_renamed_and_deleted_is_picked_up(
    running: Service, watching: Process, folder: Path
) -> None:
    tool = watched(running, folder)
    write(folder, cars="# cars\n\nThe carword.")
    appears(running, tool, "carword", "cars.md")
    (folder / "birds.md").write_text("# birds\n\nThe feathers.")
    appears(running, tool, "feathers", "birds.md")
    (folder / "cars.md").rename(folder / "wheels.md")
    appears(running, tool, "carword", "wheels.md")
    before = len(settled(running, tool))
    (folder / "deep" / "er").mkdir(parents=True)
    write(folder / "deep" / "er", nested="# nested\n\nThe nestedword.")
    appears(running, tool, "nestedword", "deep/er/nested.md")
    # one when the directory appears, and one when it is watched, for what was not heard until then
    assert len(settled(running, tool)) <= before + 3
    shutil.rmtree(folder / "deep")
    appears(running, tool, "nestedword")
    (folder / "apples.md").unlink()
    appears(running, tool, "appleword")
    assert found(running, tool, "feathers") == {"birds.md"}


def test_many_changes_cost_few_runs(running: Service, watching: Process, folder: Path) -> None:
    tool = watched(running, folder)
    before = len(runs(running, tool))
    began, edits = time.monotonic(), 0
    while time.monotonic() - began < 3 * REST:
        edits += 1
        write(folder, **{f"n{uuid4().hex}": "# one\n\nof many"})
        time.sleep(0.05)
    write(folder, last="# last\n\nThe lastword.")
    appears(running, tool, "lastword", "last.md")
    after = settled(running, tool)[before:]
    assert 1 <= len(after) <= edits / 2


def test_what_is_left_out_wakes_nobody(running: Service, watching: Process, folder: Path) -> None:
    (folder / ".gitignore").write_text("build/\n*.log\n")
    for name in (".git", "node_modules", "build"):
        (folder / name).mkdir()
    elsewhere = write(folder.parent / uuid4().hex, far="# far\n\naway")
    (folder / "link").symlink_to(elsewhere)
    tool = watched(running, folder)
    before = len(runs(running, tool))
    for place in (".git/index.md", "node_modules/left.md", "build/out.md", "noise.log", "link/new.md"):
        (folder / place).write_text("nobody asked for this")
    index = running.get(f"{TOOLS}/{tool}")["index"]["index_id"]
    until = time.monotonic() + 2
    while time.monotonic() < until:
        # only this folder: those of earlier tests may still be scanned
        assert running.rows("SELECT 1 FROM search_index_change WHERE due_at IS NOT NULL AND index_id = %s", index) == []
    write(folder, asked="# asked\n\nThe askedword.")
    appears(running, tool, "askedword", "asked.md")
    assert len(settled(running, tool)) == before + 1


def test_a_directory_that_leaves_takes_its_files_along(running: Service, watching: Process, folder: Path) -> None:
    write(folder / "docs", cars="# cars\n\nThe carword.")
    tool = watched(running, folder, include=["*.md"])
    (folder / "docs").rename(folder.parent / uuid4().hex)
    appears(running, tool, "carword")
    # a file that was never listed wakes nobody when it disappears
    before = len(settled(running, tool))
    (folder / "noise.log").write_text("nobody asked for this")
    (folder / "noise.log").unlink()
    write(folder, asked="# asked\n\nThe askedword.")
    appears(running, tool, "askedword", "asked.md")
    assert len(settled(running, tool)) == before + 1


def test_a_link_in_the_folders_place_is_followed_where_it_leads(
    running: Service, watching: Process, folder: Path, root: Path, tmp_path: Path
) -> None:
    tool = watched(running, folder)
    folder.rename(root / uuid4().hex)
    folder.symlink_to(write(root / uuid4().hex, cars="# cars\n\nThe carword."))
    appears(running, tool, "carword", "cars.md")
    settled(running, tool)
    write(folder, dogs="# dogs\n\nThe dogword.")
    appears(running, tool, "dogword", "dogs.md")
    # a line of a file that waits is found, too, but not once the folder is elsewhere
    settled(running, tool)
    folder.unlink()
    folder.symlink_to(tmp_path)
    eventually(lambda: running.status(tool)["error_code"] == "source_refused", 30, lambda: said(running))
    assert found(running, tool, "dogword") == {"dogs.md"}


def test_tools_come_and_go_without_a_restart(running: Service, watching: Process, folder: Path) -> None:
    deaf = running.local_tool(folder, config={"chunk_size": 100})
    running.wait(deaf)
    tool = watched(running, folder)
    write(folder, cars="# cars\n\nThe carword.")
    appears(running, tool, "carword", "cars.md")
    assert found(running, deaf, "carword") == set()
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"watch": False}}), 202)
    checked(running.client.patch(f"{TOOLS}/{deaf}", json={"config": {"watch": True}}), 202)
    appears(running, deaf, "carword", "cars.md")
    before = len(settled(running, tool))
    write(folder, dogs="# dogs\n\nThe dogword.")
    appears(running, deaf, "dogword", "dogs.md")
    assert len(runs(running, tool)) == before
    assert running.client.delete(f"{TOOLS}/{deaf}").status_code == 202
    write(folder, eels="# eels\n\nThe eelword.")
    running.post(f"{TOOLS}/{tool}/reindex", None)
    appears(running, tool, "eelword", "eels.md")


def test_a_lost_turn_is_noticed(running: Service, watching: Process, folder: Path) -> None:
    tool = watched(running, folder)
    ended = running.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        " AND objid::bigint = hashtext(%s)::bigint & 4294967295",
        WATCH,
    )
    assert ended == [(True,)]
    with exclusive_connection(running.database_url, WATCH) as held:
        assert held is not None
        eventually(lambda: "resumes when it does" in said(running), 30, lambda: said(running))
        write(folder, cars="# cars\n\nThe carword.")
    appears(running, tool, "carword", "cars.md")


def test_a_folder_that_is_gone_says_so_and_comes_back_by_itself(
    running: Service, watching: Process, folder: Path, root: Path
) -> None:
    tool = watched(running, folder)
    away = root / f"away{uuid4().hex}"
    folder.rename(away)
    eventually(lambda: running.status(tool)["error_code"] == "folder_gone", 30, lambda: said(running))
    status = running.status(tool)
    assert (status["status"], str(folder) in status["error"]) == ("error", True)
    # what was searchable stays searchable
    assert found(running, tool, "appleword") == {"apples.md"}
    write(away, cars="# cars\n\nThe carword.")
    away.rename(folder)
    appears(running, tool, "carword", "cars.md")
    assert running.wait(tool)["error_code"] is None
    # another directory of the same name is followed too
    settled(running, tool)
    shutil.rmtree(folder)
    write(folder, dogs="# dogs\n\nThe dogword.")
    appears(running, tool, "dogword", "dogs.md")
    write(folder, eels="# eels\n\nThe eelword.")
    appears(running, tool, "eelword", "eels.md")
    appears(running, tool, "appleword")


class Changing:
    """A folder that changes at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._outside, self._rng = folder, folder.parent / uuid4().hex, Random(seed)
        self._outside.mkdir()
        rare = [self._rename, self._ignore, self._heed, self._leave, self._come, self._move]
        self._actions = [self._edit] * 6 + [self._delete] * 2 + rare

    def change(self, times: int) -> None:
        for _ in range(times):
            self._rng.choice(self._actions)()
            time.sleep(self._rng.choice([0, 0, 0.1, 0.3]))

    def _directory(self) -> Path:
        made = self._folder / self._rng.choice(["a", "a/b", "a/b/c", "d", "d/e"])
        made.mkdir(parents=True, exist_ok=True)
        return made

    def _file(self) -> Path:
        return self._directory() / f"{self._rng.randrange(4)}.md"

    def _edit(self) -> None:
        self._file().write_text("word " * self._rng.randrange(1, 50))

    def _rename(self) -> None:
        self._rng.choice([self._folder / "apples.md", *self._folder.rglob("*.md")]).rename(self._file())
        (self._folder / "apples.md").touch()

    def _delete(self) -> None:
        self._file().unlink(missing_ok=True)

    def _ignore(self) -> None:
        (self._directory() / ".gitignore").write_text(self._rng.choice(["0.md\n", "b/\n", "e\n1.md\n", ""]))

    def _heed(self) -> None:
        (self._directory() / ".gitignore").unlink(missing_ok=True)

    def _leave(self) -> None:
        self._directory().rename(self._outside / uuid4().hex)

    def _come(self) -> None:
        for away in [*self._outside.iterdir()][:1]:
            away.rename(self._folder / uuid4().hex[:4])

    def _move(self) -> None:
        self._directory().rename(self._folder / uuid4().hex[:4])


def test_after_random_changes_and_kills_the_index_is_what_a_listing_finds(running: Service, folder: Path) -> None:
    changing = Changing(folder, 20261125)
    with watcher(running, "model0") as process:
        tool = watched(running, folder)
        changing.change(20)
        kill(process)
    changing.change(5)
    with watcher(running, "model1"):
        changing.change(30)
        write(folder, last="# last\n\nThe lastword.")
        appears(running, tool, "lastword", "last.md")
        eventually(lambda: _is_quiet(running, tool), 60, lambda: said(running))
    by_watch = _known(running, tool)
    running.post(f"{TOOLS}/{tool}/reindex", None)
    running.wait(tool)
    assert by_watch == _known(running, tool)
    narrow = "SELECT count(*) FROM search_index_task t JOIN search_tool s ON s.index_id = t.index_id"
    ((number,),) = running.rows(f"{narrow} WHERE s.id = %s AND t.paths IS NOT NULL", tool)
    assert number


def _known(running: Service, tool: str) -> dict[str, int]:
    return {file["file_path"]: file["size"] for file in running.files(tool) if file["status"] != "removed"}


def _is_quiet(running: Service, tool: str) -> bool:
    """Whether no run is open or noted, and none begins for longer than it takes to watch new directories."""
    until = time.monotonic() + 3
    before = len(settled(running, tool))
    while time.monotonic() < until:
        time.sleep(0.2)
    return len(settled(running, tool)) == before


def test_nodes_are_watched_by_their_rows_whoever_writes_them(running: Service, watching: Process) -> None:
    folder = running.node("watched", "folder")
    node = running.node("a.json", "json", {"fruit": "papaya"}, parent_id=folder)
    tool = running.tool(node_id=folder, config={"watch": True})
    running.wait(tool)
    eventually(lambda: taken_up(running, tool), 30, lambda: said(running))
    before = settled(running, tool)
    running.rows(
        "INSERT INTO content_node (project_id, id, parent_id, id_path, name, type, json) SELECT project_id, 'foreign',"
        " id, id_path || '/foreign', 'b.json', 'json', '{\"fruit\": \"mango\"}' FROM content_node WHERE id = %s"
        " RETURNING 1",
        folder,
    )
    appears(running, tool, "mango", "b.json")
    checked(running.client.patch(f"/api/projects/{PROJECT}/nodes/{node}", json={"content": {"fruit": "kiwi"}}), 200)
    appears(running, tool, "kiwi", "a.json")
    running.rows("DELETE FROM content_node WHERE id = 'foreign' RETURNING 1")
    appears(running, tool, "mango")
    # a run that began before a change was noted is followed by another
    assert 3 <= len(settled(running, tool)) - len(before) <= 6


def test_the_embedded_stack_runs_all_it_names(tmp_path: Path) -> None:
    env: dict[str, Any] = environment(tmp_path, "postgresql://nowhere.invalid/none", "redis://nowhere.invalid")
    names = [program.name for stage in embedded._own_programs(Settings(), env) for program in stage]
    assert sorted(names) == sorted(set(embedded.PROGRAM_NAMES) - {"postgres", "redis", "fork-server"})
