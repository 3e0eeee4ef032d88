"""A project that makes many tools at once delays no other project's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.chaos.full import IS_FULL
from tests.service import ENDED, NewService, Service, eventually, service
from worker.settings import LOCAL_MODEL

#: Tools that one project makes at once.
MANY = 200 if IS_FULL else 40


def test_one_tool_is_ready_long_before_many_of_another_project(new_service: NewService, tmp_path: Path) -> None:
    with new_service(
        partial(service, bulk=1),
        DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL,
        VECTOR_STORE="lancedb",
        LOCAL_SOURCE_ROOTS=str(tmp_path),
    ) as running:
        for number in range(MANY):
            _folder(tmp_path / f"{number}")
        with ThreadPoolExecutor(4) as callers:
            made = list(callers.map(lambda number: _tool(running, tmp_path / f"{number}", "many"), range(MANY)))
        one = running.local_tool(_folder(tmp_path / "one"), project="one")
        running.wait(one)
        left = _open_tasks(running, "many")
        eventually(lambda: _open_tasks(running, "many") == 0, 300, running.logs)
        assert left > MANY / 2
        assert {running.status(tool)["status"] for tool in made} == {"ready"}


def _folder(path: Path) -> Path:
    path.mkdir()
    (path / "note.txt").write_text(f"A note of {path.name}.\n")
    return path


def _tool(running: Service, folder: Path, project: str) -> str:
    return running.local_tool(folder, project=project)


def _open_tasks(running: Service, project: str) -> int:
    query = "SELECT count(*) FROM search_index_task t JOIN search_index i ON i.id = t.index_id"
    (row,) = running.rows(f"{query} WHERE i.project_id = %s AND t.status <> ALL (%s)", project, list(ENDED))
    return int(row[0])
