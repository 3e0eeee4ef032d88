"""Folders beyond the fast queue's size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import Service, environment, next_broker, service
from worker.app import SMALL_TASK
from worker.settings import LOCAL_MODEL

FILES = SMALL_TASK + 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for number in range(FILES):
        (made / f"{number}.txt").write_text(f"note {number}\n")
    return made


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_url: str, folder: Path
) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("home")
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(folder), "VECTOR_STORE": "lancedb"}
    with service(environment(home, database_url, next_broker(redis_url), **env)) as started:
        yield started


def test_a_single_changed_file_of_many_is_indexed(running: Service, folder: Path) -> None:
    assert running.wait(running.local_tool(folder))["indexed_files"] == FILES
    (folder / "7.txt").write_text("note 7 was edited\n")
    tool = running.local_tool(folder)
    status = running.wait(tool)
    assert (status["indexed_files"], status["embedded_chunks"]) == (FILES, 1)
    assert running.query(tool, "edited", mode="keyword")[0]["file_path"] == "7.txt"
