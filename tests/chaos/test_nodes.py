"""Nodes that move while they are listed, and uploads while S3 fails and the API is killed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from http import HTTPStatus
from signal import SIGKILL
from typing import Any
from uuid import uuid4

import httpx
import pytest

from api.stack.processes import start, wait_until
from tests.chaos import corpus
from tests.chaos.cluster import Cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import prove_vectors
from tests.fakes.faulty import Faulty, faulty_bucket
from tests.service import PROJECT, TOOLS, NewService, Service, checked, eventually
from worker.objects.object_store import PART, s3_client
from worker.settings import LOCAL_MODEL

#: Takes two minutes, most of them waiting.
pytestmark = only_in_full

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
FOLDERS, NOTES = 4, 6
BUCKET = f"contents-{uuid4().hex}"
#: Uploads of the storm, and for each the names it chooses from. Few names make later versions of the same file.
UPLOADS, NAMES = 40, 12
#: What S3 may fail at: a method, and a part of the address.
FAULTS = [("PUT", BUCKET), ("POST", BUCKET), ("DELETE", BUCKET), ("PUT", "partNumber")]

LIVE = """
SELECT f.path, c.context || c.chunk_text FROM chunk c JOIN search_index_file f ON f.id = c.file_id
JOIN search_tool t ON t.index_id = c.index_id WHERE t.id = %s AND c.live ORDER BY f.path, c.chunk_index
"""


class Tree:
    """The nodes of one project, and where each note lies by what was asked and answered."""

    def __init__(self, here: Cluster, project: str) -> None:
        self.here, self.nodes = here, f"/api/projects/{project}/nodes"
        self.root = self._add(name="root", type="folder")
        self.folders: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def _add(self, **node: Any) -> str:
        return str(checked(self.here.client.post(self.nodes, json=node), 201)["id"])

    def add_folder(self, name: str) -> None:
        self.folders[name] = self._add(name=name, type="folder", parent_id=self.root)

    def add_note(self, folder: str, name: str, text: str) -> str:
        self.texts[f"{folder}/{name}"] = text
        return self._add(name=name, type="markdown", content=text, parent_id=self.folders[folder])

    def move_folder(self, name: str, into: str) -> None:
        self._change(self.folders[name], {"parent_id": self.folders[into]})
        self._rename_texts(f"{name}/", f"{into}/{name}/")

    def rename_folder(self, name: str, new: str) -> None:
        self._change(self.folders[name], {"name": new})
        self._rename_texts(f"{name}/", f"{new}/")

    def delete_folder(self, name: str) -> None:
        checked(self.here.client.delete(f"{self.nodes}/{self.folders.pop(name)}"), 202)
        self.texts = {path: text for path, text in self.texts.items() if not path.startswith(f"{name}/")}

    def _rename_texts(self, old: str, new: str) -> None:
        renamed = {path: new + path.removeprefix(old) for path in self.texts if path.startswith(old)}
        self.texts = {renamed.get(path, path): text for path, text in self.texts.items()}

    def _change(self, node: str, change: dict[str, Any]) -> None:
        """The next planner may hold locks at the gate; then the API answers 503 and the client tries again."""
        answers: list[httpx.Response] = []

        def answered() -> bool:
            answers.append(self.here.client.patch(f"{self.nodes}/{node}", json=change))
            return answers[-1].status_code != HTTPStatus.SERVICE_UNAVAILABLE

        eventually(answered, 60, self.here.logs)
        checked(answers[-1], 200)


@pytest.mark.parametrize("point", ["plan-page", "plan-end"])
def test_nodes_that_move_during_a_listing_are_found_where_they_went(here: Cluster, point: str) -> None:
    mark = corpus.new_mark()
    tree = Tree(here, project := f"moves-{mark}")
    for number in range(FOLDERS):
        tree.add_folder(f"f{number}")
        for note in range(NOTES):
            tree.add_note(f"f{number}", f"{note}.md", f"# Note {note}\n\nThis is {mark} of f{number}, note {note}.\n")
    here.gates.close(point, project)
    body = {"project_id": project, "source": {"kind": "nodes", "node_id": tree.root}, "config": {"auto_reindex": True}}
    tool = str(checked(here.client.post(TOOLS, json=body), 202)["tool_id"])
    eventually(lambda: bool(here.gates.arrived(point, project)), 20, here.logs)
    here.kill("worker-fast")
    eventually(lambda: not here.gates.arrived(point, project), 20, here.logs)
    tree.move_folder("f0", into="f1")
    tree.rename_folder("f2", "g2")
    tree.delete_folder("f3")
    tree.add_folder("new")
    tree.add_note("new", "late.md", f"# Late\n\nThis is {mark}, added late.\n")
    here.gates.open(point, project)

    def found() -> dict[str, str]:
        return dict(here.rows(LIVE, tool))

    eventually(lambda: found().keys() == tree.texts.keys(), 90, lambda: f"{sorted(found())}\n{here.logs()}")
    here.wait(tool)
    expected = {path: text.strip() for path, text in tree.texts.items()}
    assert {path: text.strip() for path, text in found().items()} == expected
    prove_vectors(here, tool)


@pytest.fixture(scope="module")
def front(s3: dict[str, str]) -> Iterator[Faulty]:
    with faulty_bucket(s3, BUCKET) as server:
        yield server


@pytest.fixture(scope="module")
def running(new_service: NewService, s3: dict[str, str], front: Faulty) -> Iterator[Service]:
    env = {**s3, "S3_ENDPOINT_URL": front.url, "S3_BUCKET": BUCKET, "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL}
    with new_service(**env) as started:
        yield started


def _upload(running: Service, folder: str, name: str, text: bytes) -> bool:
    """Whether the API accepted the file."""
    files, path = [("files", (name, text))], f"/api/projects/{PROJECT}/uploads"
    with suppress(httpx.TransportError):
        answer = running.client.post(path, files=files, data={"parent_id": folder})
        return answer.status_code == 200 and answer.json()["items"][0]["outcome"] in {"created", "updated"}
    return False


def _kill_api(running: Service) -> None:
    api = running.processes["api"]
    api.child.send_signal(SIGKILL)
    api.child.wait()
    running.processes["api"] = start(api.program, running.home)
    assert wait_until(api.program.ready, 60)


def _objects(s3: dict[str, str]) -> set[str]:
    """Keys of the bucket's objects and of its unfinished uploads."""
    direct = s3_client(s3["S3_ENDPOINT_URL"])
    unfinished = direct.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    whole = direct.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {item["Key"] for item in (*whole, *unfinished)}


@pytest.mark.timeout(300)
def test_uploads_while_s3_fails_leave_what_was_accepted_and_nothing_else(
    running: Service, front: Faulty, s3: dict[str, str]
) -> None:
    by = random.Random(SEED)
    folder = running.node("storm", "folder")
    accepted: dict[str, list[bytes]] = {}
    for number in range(UPLOADS):
        name = f"{by.randrange(NAMES)}.md"
        text = f"# Upload {number}\n\nThe word is storm{number}x.\n".encode()
        if by.random() < 0.1:
            text += b"filler " * (PART // 7 + 1)
        with front.fail(*by.choice(FAULTS), by.choice([0, 500, 503])) if by.random() < 0.5 else nullcontext():
            done = _upload(running, folder, name, text)
        if by.random() < 0.1:
            _kill_api(running)
        # a request without an answer may have been applied
        accepted[name] = [text] if done else [*accepted.get(name, []), text]
    nodes = dict(running.rows("SELECT name, id FROM content_node WHERE parent_id = %s", folder))
    for name, id_ in nodes.items():
        content = running.get(f"/api/projects/{PROJECT}/nodes/{id_}")["content"].encode()
        assert content in accepted[name], f"seed {SEED}, {name}"
    running.rows("UPDATE content_stray SET due_at = now() RETURNING 1")
    running.rows("DELETE FROM upkeep WHERE name = 'strays' RETURNING 1")

    def named() -> set[str]:
        return {key for (key,) in running.rows("SELECT object_key FROM content_node WHERE object_key IS NOT NULL")}

    eventually(lambda: named() == _objects(s3), 60, lambda: f"seed {SEED}: {named() ^ _objects(s3)}")
    tool = running.tool(node_id=folder)
    status = running.wait(tool, seconds=120)
    assert (status["indexed_files"], status["failed_files"]) == (len(nodes), 0)
