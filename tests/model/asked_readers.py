"""A project whose nodes have access lists, beside the model of who reads what; and ways to ask what somebody reads."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from api.identity.principals import HEADER
from tests.model.who_reads import Model, Node
from tests.service import TOOLS, checked, eventually

PEOPLE = ("ann", "bob", "eve")
#: Is in every file.
WORD = "harbour"
#: More than there are chunks.
ALL = 100


@dataclass
class Project:
    """The project of a running service. `key` manages it and sees all; `gateway` acts for people."""

    client: httpx.Client
    key: str
    gateway: str
    name: str
    dice: random.Random
    model: Model = field(default_factory=Model)
    tool: str = ""
    chunks: dict[str, str] = field(default_factory=dict)
    #: Files that a call asks for one by one.
    some: int = 3
    #: Requests of people that were answered.
    answered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body, headers={"Authorization": f"Bearer {self.key}"})

    @property
    def nodes(self) -> str:
        return f"/api/projects/{self.name}/nodes"

    def fill(self, folders: int, files: int) -> None:
        """Add random nodes with random lists, and index them."""
        self.model.groups = {
            name: set(self.dice.sample(["a", "b", "c"], self.dice.choice([0, 1, 2]))) for name in PEOPLE
        }
        self._add("top", None, is_folder=True)
        for number in range(folders):
            self._add(f"folder-{number}", self._any_folder(), is_folder=True)
        for number in range(files):
            self._add(f"file-{number}", self._any_folder(), is_folder=False)
        body = {"project_id": self.name, "node_id": "top", "config": {"auto_reindex": True}}
        self.tool = checked(self.send("POST", TOOLS, body), 202)["tool_id"]
        status = f"{TOOLS}/{self.tool}/status"
        # so long while other tests have the processors
        eventually(
            lambda: self.send("GET", status).json()["status"] == "ready", 200, lambda: self.send("GET", status).text
        )
        for node in self.model.nodes:
            if not self.model.nodes[node].is_folder:
                listed = checked(self.send("GET", f"{TOOLS}/{self.tool}/files/{node}/chunks"), 200)["items"]
                self.chunks[node] = listed[0]["chunk_id"]

    def _any_folder(self) -> str:
        return self.dice.choice([id_ for id_, node in self.model.nodes.items() if node.is_folder])

    def _add(self, id_: str, parent: str | None, *, is_folder: bool) -> None:
        acl = self.model.any_list(self.dice) if self.dice.random() < 0.4 else None
        body: dict[str, Any] = {"id": id_, "name": id_, "parent_id": parent, "type": "folder"}
        if not is_folder:
            text = f"def {id_.replace('-', '_')}():\n    return '{WORD} of {id_}'\n"
            body |= {"name": f"{id_}.py", "type": "code", "content": text}
        checked(self.send("POST", self.nodes, {**body, **({} if acl is None else {"acl": acl})}), 201)
        self.model.nodes[id_] = Node(parent, is_folder, None if acl is None else sorted(set(acl)))

    def any_change(self) -> tuple[Callable[[Model], None], Callable[[], httpx.Response]]:
        """A random change: to the model, and to the service."""
        node = self.dice.choice([id_ for id_ in self.model.nodes if id_ != "top"])
        if self.dice.random() < 0.75:
            acl = self.model.any_list(self.dice)

            def set_list(model: Model) -> None:
                model.nodes[node].acl = acl

            return set_list, lambda: self.send("PATCH", f"{self.nodes}/{node}", {"acl": acl})
        into = self.dice.choice([id_ for id_, each in self.model.nodes.items() if each.is_folder])
        if self.model.is_below(into, node):
            return self.any_change()

        def move(model: Model) -> None:
            model.nodes[node].parent = into

        return move, lambda: self.send("PATCH", f"{self.nodes}/{node}", {"parent_id": into})

    def shown(self, person: str | None, way: str) -> set[str] | None:
        """The files that an answer shows to a person; None if the service is away."""
        held = sorted(self.model.principals(person) - {"*"})
        headers = {"Authorization": f"Bearer {self.gateway}", HEADER: ",".join(held)}
        try:
            return WAYS[way](self, headers)
        except Away:
            return None

    def check(self, what: object) -> None:
        """Nobody is shown more than the model says; and soon, all of it. `what` tells the state in a failure."""
        for person in (None, *PEOPLE):
            read = self.model.files(person)
            for way in WAYS:
                shown = self.shown(person, way)
                assert shown is not None
                assert shown <= read, (what, person, way)
            for way in WHOLE:
                eventually(
                    lambda person=person, way=way, read=read: self.shown(person, way) == read,  # type: ignore[misc] # mypy takes no default for a function without arguments
                    10,
                    lambda person=person, way=way: str((what, person, way, self.shown(person, way))),  # type: ignore[misc] # as above
                )


class Away(Exception):
    """The service, or one that it needs, does not answer now."""


def _answer(project: Project, headers: dict[str, str], path: str, body: Any = None) -> dict[str, Any] | None:
    """The answer, None for what does not exist. Raises `Away`."""
    method = "GET" if body is None else "POST"
    try:
        answer = project.client.request(method, path, json=body, headers=headers)
    except httpx.TransportError as error:
        raise Away from error
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        raise Away(answer.text)
    with project.lock:
        project.answered += 1
    if answer.is_success:
        return answer.json() if answer.headers["content-type"].startswith("application/json") else {}
    assert answer.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}, answer.text
    return None


def _hits(answer: dict[str, Any] | None, name: str = "results") -> set[str]:
    # files are called as their nodes
    return {Path(hit["file_path"]).stem for hit in (answer or {name: []})[name]}


def _searched(**options: Any) -> Callable[[Project, dict[str, str]], set[str]]:
    body = {"query": WORD, "top_k": ALL, **options}
    return lambda project, headers: _hits(_answer(project, headers, f"{TOOLS}/{project.tool}/query", body))


def _across(project: Project, headers: dict[str, str]) -> set[str]:
    body = {"project_id": project.name, "tool_ids": [project.tool], "query": WORD, "top_k": ALL}
    return _hits(_answer(project, headers, "/api/search", body))


def _grepped(project: Project, headers: dict[str, str]) -> set[str]:
    body = {"pattern": WORD, "head_limit": ALL}
    return _hits(_answer(project, headers, f"{TOOLS}/{project.tool}/grep", body), "hits")


def _listed(part: str) -> Callable[[Project, dict[str, str]], set[str]]:
    return lambda project, headers: _hits(
        _answer(project, headers, f"{TOOLS}/{project.tool}/{part}?limit={ALL}"), "items"
    )


def _one_by_one(path: Callable[[Project, str], str]) -> Callable[[Project, dict[str, str]], set[str]]:
    """Of some files, those that are shown by their ids."""

    def ask(project: Project, headers: dict[str, str]) -> set[str]:
        some = random.sample(sorted(project.chunks), project.some)
        return {node for node in some if _answer(project, headers, path(project, node)) is not None}

    return ask


#: Ways to ask for files. The first ones show all that a person reads, the others some of it.
WHOLE: dict[str, Callable[[Project, dict[str, str]], set[str]]] = {
    "keyword": _searched(mode="keyword"),
    "vector": _searched(mode="vector"),
    "hybrid": _searched(mode="hybrid", group_by_file=True),
    "phrase": _searched(query=f'"{WORD} of"'),
    "across": _across,
    "grep": _grepped,
    "files": _listed("files"),
    "symbols": _listed("symbols"),
}
WAYS = WHOLE | {
    "chunk": _one_by_one(lambda project, node: f"{TOOLS}/{project.tool}/chunks/{project.chunks[node]}"),
    "file": _one_by_one(lambda project, node: f"{TOOLS}/{project.tool}/files/{node}"),
    "node": _one_by_one(lambda project, node: f"{project.nodes}/{node}"),
    "content": _one_by_one(lambda project, node: f"{project.nodes}/{node}/content"),
}


def new_project(client: httpx.Client, make_key: Callable[..., str], dice: random.Random) -> Project:
    """A project without nodes. `make_key` makes a key of a project with some scopes."""
    name = f"p{uuid4().hex}"
    key = make_key(name, "admin", "all_documents")
    return Project(client, key, make_key(name, "search", "impersonate"), name, dice)
