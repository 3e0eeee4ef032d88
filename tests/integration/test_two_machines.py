"""Two machines with one database: what a process does that sees another directory than the installation's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.cli.fsck import check
from api.stack.processes import server_port
from tests.service import PROJECT, NewService, Service, eventually
from worker.machine.directory_mark import FILE
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings

#: Seconds within which a command or a task ends on a busy machine.
PATIENCE = 60
UPLOADS = f"/api/projects/{PROJECT}/uploads"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machines") / "notes"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nThe kiwi of note {number} is ripe.\n")
    return folder


@pytest.fixture(scope="module")
def running(new_service: NewService, folder: Path) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, LOCAL_SOURCE_ROOTS=str(folder.parent)) as started:
        yield started


@pytest.fixture(scope="module")
def tool(running: Service, folder: Path) -> str:
    tool = running.local_tool(folder)
    running.wait(tool)
    return tool


@contextmanager
def swapped(running: Service, name: str, *, empty: bool = False) -> Iterator[None]:
    """Another directory at the place of one of the running service. What is written there is an error."""
    place, kept = running.home / name, running.home / f"{name}-kept"
    place.rename(kept)
    if empty:
        # as where a mount is gone
        place.mkdir()
    else:
        # an older copy, as on another machine that had a release without marks
        shutil.copytree(kept, place, ignore=shutil.ignore_patterns(FILE, ".calls*"))
    before = tree(place)
    try:
        yield
        assert tree(place) == before
    finally:
        shutil.rmtree(place)
        kept.rename(place)


def tree(place: Path) -> set[tuple[Path, int]]:
    return {(path, path.stat().st_mtime_ns) for path in place.rglob("*")}


def run(running: Service, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **running.env, "FOLDEX_HOME": str(home), "API_PORT": str(server_port())}
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


WORKER = ("-m", "celery", "-A", "worker.app", "worker", "-P", "solo", "-n", "other@other", "-Q", "bulk")


@pytest.mark.parametrize("arguments", [("-m", "api", "serve"), WORKER, ("-m", "api", "fsck", "--all")])
def test_a_process_with_another_directory_does_not_start(
    running: Service, tool: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ended = run(running, tmp_path / "other", *arguments)
    assert ended.returncode not in {0, 1} or arguments == WORKER
    said = ended.stderr + ended.stdout
    assert f"{tmp_path / 'other' / 'lancedb'} on " in said
    assert "is not the directory that holds this installation's vectors" in said
    assert "Traceback" not in said
    assert not (tmp_path / "other" / "lancedb").exists()


def problem(response: httpx.Response) -> str:
    assert response.status_code == 503, response.text
    assert "is not the directory that holds" in response.json()["detail"]
    return str(response.json()["code"])


def test_searches_and_checks_refuse_other_vectors(running: Service, tool: str) -> None:
    with swapped(running, "lancedb"):
        answer = running.client.post(f"/api/tools/search/{tool}/query", json={"query": "ripe kiwi"})
        assert problem(answer) == "vectors_elsewhere"
        resources = Resources(Settings(**{k.lower(): v for k, v in running.env.items() if v}))
        (found,) = check(resources, None, repair=True)
        assert "is not the directory" in (found.message or "")
        assert not found.ok
        assert found.repaired is None
        ready = running.get("/readyz")
        assert "is not the directory" in ready["warning"]
        # it would mark what a stranger lacks as lost
        assert running.rows("SELECT count(*) FROM chunk WHERE lost") == [(0,)]
    assert len(running.query(tool, "ripe kiwi", top_k=20)) == 6


def test_a_run_waits_for_its_vectors(running: Service, tool: str, folder: Path) -> None:
    with swapped(running, "lancedb"):
        (folder / "new.md").write_text("# New\n\nA ripe mango.\n")
        running.post(f"/api/tools/search/{tool}/reindex", {})
        eventually(lambda: "is not the directory" in (running.status(tool)["warning"] or ""), PATIENCE, running.logs)
        assert running.status(tool)["status"] in {"pending", "indexing"}
    status = running.wait(tool)
    assert (status["failed_files"], status["warning"], status["indexed_files"]) == (0, None, 7)
    assert running.query(tool, "ripe mango")[0]["file_path"] == "new.md"


def upload(running: Service, name: str, data: bytes) -> httpx.Response:
    return running.client.post(UPLOADS, files=[("files", (name, data))])


def test_contents_are_neither_stored_nor_read_elsewhere(running: Service) -> None:
    created = upload(running, "old.md", b"# Old\n\nA plum.\n").json()["items"][0]
    node = f"/api/projects/{PROJECT}/nodes/{created['file_id']}"
    with swapped(running, "objects", empty=True):
        before = running.rows("SELECT count(*) FROM content_node")
        calls: list[Callable[[], httpx.Response]] = [
            lambda: upload(running, "new.md", b"# New\n"),
            lambda: running.client.post(
                f"/api/projects/{PROJECT}/nodes", json={"name": "x.md", "type": "markdown", "content": "text"}
            ),
            lambda: running.client.patch(node, json={"content": "changed"}),
            lambda: running.client.get(node),
            lambda: running.client.get(f"{node}/content"),
        ]
        for call in calls:
            assert problem(call()) == "contents_elsewhere"
        assert running.rows("SELECT count(*) FROM content_node") == before
        tool = running.tool(node_id=created["file_id"])
        eventually(lambda: "is not the directory" in (running.status(tool)["warning"] or ""), PATIENCE, running.logs)
    assert running.wait(tool)["failed_files"] == 0
    assert running.get(node)["content"] == "# Old\n\nA plum.\n"


def test_what_is_deleted_through_another_machine_does_not_stay(running: Service) -> None:
    project = "deleted-elsewhere"
    body: dict[str, Any] = {"name": "x.md", "type": "markdown", "content": "secret"}
    for _ in range(3):
        running.post(f"/api/projects/{project}/nodes", body, 201)
    keys = [key for (key,) in running.rows("SELECT object_key FROM content_node WHERE project_id = %s", project)]
    with swapped(running, "objects"):
        assert running.client.delete(f"/api/projects/{project}").status_code == 202
        assert {key for (key,) in running.rows("SELECT key FROM content_stray")} >= {*keys}
    running.rows("DELETE FROM upkeep WHERE name = 'strays'")

    def is_gone() -> bool:
        return not running.rows("SELECT FROM content_stray WHERE key = ANY (%s)", keys)

    eventually(is_gone, PATIENCE, running.logs)
    assert not [
        path for path in (running.home / "objects").rglob("*") if path.is_file() and path.read_bytes() == b"secret"
    ]
