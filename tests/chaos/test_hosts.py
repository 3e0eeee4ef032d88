"""Two workers of which one lacks a setting, or has a wrong key: it leaves the tasks to the other one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from api.stack.processes import Program, running
from tests.chaos.full import only_in_full
from tests.fakes.buckets import buckets
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import ENDED, PROJECT, NewService, Service, another_node, checked, eventually, service, with_clock
from worker.objects.object_store import s3_client

#: Tasks of each try: with two workers, one that fails all it takes would hardly take none of them.
TASKS = 4
UPLOADS = f"/api/projects/{PROJECT}/uploads"
#: What a worker lacks, and what it has instead of the right settings. The first is a worker that lacks all at once.
LACKS = {
    "S3_BUCKET": {"S3_BUCKET": ""},
    "S3 credentials": {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
    "TURBOPUFFER_API_KEY": {"TURBOPUFFER_API_KEY": ""},
    "EMBEDDING_API_BASE": {"EMBEDDING_API_BASE": ""},
}
ALL = {name: value for lacked in LACKS.values() for name, value in lacked.items()}
WRONG = {
    "another TURBOPUFFER_API_KEY": {"TURBOPUFFER_API_KEY": "wrong"},
    "another EMBEDDING_API_KEY": {"EMBEDDING_API_KEY": "wrong"},
}
_names = count()


@dataclass
class Fleet:
    """A service whose workers a test starts."""

    service: Service
    root: Path

    @contextmanager
    def worker(self, **env: str) -> Iterator[str]:
        """A worker of all queues, with settings of its own. Yields its name."""
        name = f"n{next(_names)}"
        with running(all_queues(self.service, name, env), self.service.home):
            yield f"all-{name}@"

    def folder_tool(self) -> str:
        folder = self.root / uuid4().hex
        folder.mkdir()
        (folder / "a.txt").write_text(f"pears {folder.name}")
        return self.service.local_tool(folder)

    def upload_tool(self) -> str:
        """A tool over a file whose content is in the object store."""
        folder = self.service.node(uuid4().hex, "folder")
        part = [("files", ("a.txt", f"apples {folder}".encode()))]
        posted = self.service.client.post(UPLOADS, files=part, data={"parent_id": folder})
        checked(posted, 200)
        return self.service.tool(node_id=folder)

    def ended(self, tools: list[str]) -> dict[str, tuple[str, int]]:
        """The status and the indexed files of tools once all have ended."""
        states = {tool: self.service.status(tool) for tool in tools}

        def have_ended() -> bool:
            states.update({tool: self.service.status(tool) for tool in tools})
            return all(state["status"] in ENDED for state in states.values())

        eventually(have_ended, 60, lambda: f"{states}\n{self.service.logs()}")
        return {tool: (state["status"], state["indexed_files"]) for tool, state in states.items()}


def all_queues(service: Service, name: str, env: dict[str, str]) -> Program:
    program = another_node({**service.env, **env}, "all", name, 1)
    command = tuple("fast,bulk" if part == "all" else part for part in program.command)
    return replace(program, command=command)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, new_service: NewService) -> Iterator[Fleet]:
    root = tmp_path_factory.mktemp("root")
    with EmbeddingsFake() as provider, FakeTurbopuffer() as store, buckets() as s3:
        bucket = f"contents-{uuid4().hex}"
        s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket=bucket)
        env = {**provider.env, **store.env, **s3, "S3_BUCKET": bucket, "LOCAL_SOURCE_ROOTS": str(root)}
        with new_service(lambda given: service(given, workers=False), **env) as started:
            good = with_clock(all_queues(started, "good", {}), started.home)
            with running(good, started.home):
                yield Fleet(started, root)


def left(fleet: Fleet, name: str) -> list[str]:
    """Why a worker left tasks to others."""
    lines = fleet.service.logs().splitlines()
    return [line for line in lines if "left to another worker" in line and name in line]


@pytest.mark.timeout(300)
def test_a_worker_leaves_to_others_what_it_lacks_settings_for(fleet: Fleet) -> None:
    with fleet.worker(**ALL) as name:
        tools = [fleet.upload_tool() for _ in range(TASKS)]
        assert set(fleet.ended(tools).values()) == {("ready", 1)}
        assert left(fleet, name)
        assert f"S3_BUCKET is not set for {name}" in left(fleet, name)[0]
        told = fleet.service.get("/readyz")["hosts"]
        assert all(setting in told for setting in LACKS)
        assert f"not set for {name}" in told


@only_in_full
@pytest.mark.parametrize("lacks", LACKS)
def test_a_worker_leaves_to_others_what_it_lacks_a_setting_for(fleet: Fleet, lacks: str) -> None:
    with fleet.worker(**LACKS[lacks]) as name:
        tools = [fleet.upload_tool() for _ in range(TASKS)]
        assert set(fleet.ended(tools).values()) == {("ready", 1)}
        assert left(fleet, name)
        assert all(f"{lacks} is not set for {name}" in line for line in left(fleet, name))


@only_in_full
@pytest.mark.parametrize("wrong", WRONG)
def test_a_worker_leaves_to_others_what_its_own_key_is_refused_for(fleet: Fleet, wrong: str) -> None:
    with fleet.worker(**WRONG[wrong]) as name:
        tools = [fleet.folder_tool() for _ in range(TASKS)]
        assert set(fleet.ended(tools).values()) == {("ready", 1)}
        assert all(wrong in line for line in left(fleet, name))
