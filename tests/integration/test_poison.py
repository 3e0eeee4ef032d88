"""Files that kill the process that parses them: only the file itself pays, the third time with its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from api.stack.record import ROOT
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import NewService, Service, service
from worker.settings import LOCAL_MODEL

INNOCENT = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for number in range(INNOCENT):
        (made / f"note-{number}.md").write_text(f"# Note {number}\n\nInnocent number {number}.\n")
    (made / "kills.md").write_text("# Bad\n\nKILL-ME\n")
    (made / "loops.md").write_text("# Bad\n\nLOOP-FOR-EVER\n")
    (made / "eats.md").write_text("# Bad\n\nEAT-ALL-MEMORY\n")
    (made / "kills-later.md").write_text("# Bad\n\nKILL-LATER\n")
    return made


@pytest.fixture(scope="module")
def running(new_service: NewService, folder: Path) -> Iterator[Service]:
    poison = str(ROOT / "tests" / "fakes" / "poison")
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(folder), "PYTHONPATH": poison}
    # its client is imported before the fork: otherwise each new process would import LanceDB
    with FakeTurbopuffer() as fake, new_service(partial(service, bulk=1), **env, **fake.env) as started:
        yield started


@pytest.mark.timeout(400)
def test_poison_is_tried_alone_and_condemns_nobody_else(running: Service, folder: Path) -> None:
    workers = {name: process.child.pid for name, process in running.processes.items()}
    tool = running.local_tool(folder)
    running.wait(tool, seconds=360)
    outcomes = {file["file_path"]: (file["status"], file["reason"]) for file in running.files(tool)}
    assert outcomes.pop("kills.md") == ("failed", "crashed")
    assert outcomes.pop("loops.md") == ("failed", "crashed")
    assert outcomes.pop("eats.md") == ("failed", "crashed")
    assert outcomes.pop("kills-later.md") == ("failed", "crashed")
    assert set(outcomes.values()) == {("indexed", None)}
    assert len(outcomes) == INNOCENT
    (bad,) = running.files(tool, q="kills.md")
    assert "three times" in bad["message"]
    # a pool child died each time; the workers themselves survived
    assert {name: process.child.pid for name, process in running.processes.items()} == workers
    assert not any(process.ended() for process in running.processes.values())
