"""What callers get who may not read all files, while nodes are added and lists come and go."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from httpx import Client

from tests.integration.test_acl_of_searches import ANN, Project, guarded, project_in
from tests.service import Service, checked

__all__ = ["guarded"]

EVE = "user:eve"
WRITERS = 4


@contextmanager
def writing(project: Project, *folders: str) -> Iterator[None]:
    """Nodes are added to these folders as fast as the service takes them."""
    stop = Event()
    url, headers = str(project.service.client.base_url), {"Authorization": f"Bearer {project.keys['all']}"}

    def write(number: int) -> int:
        made = 0
        with Client(base_url=url, headers=headers, timeout=30) as client:
            while not stop.is_set():
                parent = project.nodes[folders[made % len(folders)]]
                body = {"name": "n", "type": "text", "parent_id": parent, "content": "x", "metadata": {"team": "red"}}
                # each node of one writer has a list of its own
                own: dict[str, Any] = {"acl": ["*", f"user:{made}"]} if number == 0 else {}
                checked(client.post(f"/api/projects/{project.name}/nodes", json=body | own), 201)
                made += 1
        return made

    with ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(write, number) for number in range(WRITERS)]
        try:
            yield
        finally:
            stop.set()
        assert all(each.result() for each in running)


def found(project: Project, who: str) -> set[str]:
    body = {"query": "kestrel", "top_k": 50, "fields": ["file_path"]}
    return {hit["file_path"] for hit in project.post("/query", body, who)["results"]}


def test_searches_are_answered_while_nodes_are_added(guarded: Service) -> None:
    project = project_in(guarded)
    project.make("turn.md", "The kestrel is a secret of some.\n", acl=[ANN])
    for number in range(20):
        project.make(f"open/{number}.md", f"The kestrel number {number} is known to all.\n")
    project.make("ann", "")
    project.change("ann", [ANN])
    project.index()
    across = {"project_id": project.name, "tool_ids": [project.tool], "query": "kestrel"}
    with writing(project, "ann", "open"):
        for number in range(15):
            # Ann may read all files, so that those that are new count for her
            assert ("turn.md" in found(project, ANN), "turn.md" in found(project, EVE)) == (True, False)
            checked(project.call("POST", "/api/search", ANN, json=across), 200)
            checked(project.call("POST", "/api/search", EVE, json=across), 200)
            project.change("open/0.md", ["user:bob"] if number % 2 else [EVE])
            assert ("open/0.md" in found(project, EVE)) == (number % 2 == 0)


def test_totals_are_shown_where_no_list_holds(guarded: Service) -> None:
    project = project_in(guarded)
    project.make("a.md", "The kestrel is known to all.\n")
    project.make("in/b.md", "The kestrel is known to all.\n")
    project.index()

    def totals() -> set[int | None]:
        """Of a search and of the status."""
        asked = project.post("/query", {"query": "kestrel"}, EVE)
        status = project.get("/status", EVE)
        return {asked["coverage"]["total_files"], status["total_files"]}

    assert totals() == {2}
    elsewhere = {"name": "elsewhere", "type": "folder", "acl": [ANN]}
    checked(project.call("POST", f"/api/projects/{project.name}/nodes", None, json=elsewhere), 201)
    assert totals() == {2}
    for path in ("in/b.md", "in", ""):
        project.change(path, ["*"])
        assert totals() == {None}
        project.change(path, None)
        assert totals() == {2}
