"""Every call of a running service answers what its OpenAPI document describes, and with no other status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.service import PROJECT, TOOLS, Service, eventually
from worker.machine.page_links import new_link, page_links_file
from worker.settings import Settings

NODES = f"/api/projects/{PROJECT}/nodes"
JSON = {"content-type": "application/json"}
#: Bytes of a body.
MOST = Settings.model_fields["max_body_bytes"].default
CODE = "def read_token(text):\n    return parse(text)\n\n\ndef parse(text):\n    return text.strip()\n"


class Witness:
    """Compares each answer with the document, and remembers operations and statuses."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.ids = {call["operationId"] for methods in document["paths"].values() for call in methods.values()}
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, response: httpx.Response) -> None:
        operation = self._operation(response.request)
        described = operation["responses"].get(str(response.status_code))
        assert described, (operation["operationId"], response.status_code)
        self.seen.add((operation["operationId"], response.status_code))
        kind = response.headers["content-type"].partition(";")[0]
        content = described["content"]
        schema = (content.get(kind) or content["*/*"])["schema"]
        response.read()
        value = response.json() if kind in content and kind.endswith("json") else response.text
        whole = {**schema, "components": self._document["components"]}
        wrong = Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(value)
        assert [each.message for each in wrong] == [], operation["operationId"]
        assert schema.get("type") == "string" or self._extra(schema, value) == set(), operation["operationId"]

    def _operation(self, request: httpx.Request) -> dict[str, Any]:
        paths = self._document["paths"]
        fits = [path for path in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path)]
        operation: dict[str, Any] = paths[min(fits, key=lambda path: path.count("{"))][request.method.lower()]
        return operation

    def _extra(self, schema: dict[str, Any], value: Any) -> set[str]:
        """The fields of an answer, or of a list of such, that its model does not have."""
        if "items" in schema:
            return {name for each in value for name in self._extra(schema["items"], each)}
        model = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return set(value) - set(model["properties"])


@pytest.fixture
def witness(running: Service) -> Iterator[Witness]:
    seen = Witness(running.get("/openapi.json"))
    running.client.event_hooks = {"request": [], "response": [seen]}
    yield seen
    running.client.event_hooks = {}


@pytest.fixture
def tool(running: Service, witness: Witness, root: Path) -> str:
    folder = root / "code"
    folder.mkdir()
    (folder / "token.py").write_text(CODE)
    (folder / "data.json").write_text('{"auth": {"type": "JWT"}}')
    (folder / "empty.md").write_text("")
    made = running.local_tool(folder)
    running.wait(made)
    assert ("create_tool", 202) in witness.seen
    return made


def content_calls(client: httpx.Client) -> None:
    for status in (201, 409):
        assert client.post(NODES, json={"id": "folder", "name": "docs", "type": "folder"}).status_code == status
    made = client.post(NODES, json={"id": "n", "parent_id": "folder", "name": "a.json", "type": "json", "content": [1]})
    assert made.is_success
    uploads = f"/api/projects/{PROJECT}/uploads"
    assert client.post(uploads, files={"files": ("b.md", b"# B")}, params={"parent_id": "folder"}).is_success
    client.post(uploads, files={"wrong": ("b.md", b"")}, params={"parent_id": "missing"})
    client.get(NODES, params={"parent_id": "folder"})
    for node in ("n", "missing"):
        client.get(f"{NODES}/{node}")
        client.get(f"{NODES}/{node}/content")
        client.patch(f"{NODES}/{node}", json={"name": "c.json"})
        client.delete(f"{NODES}/{node}")
    client.patch(f"{NODES}/folder", json={"content": "text"})


def question_calls(client: httpx.Client, tool: str) -> None:
    place = f"{TOOLS}/{tool}"
    hits = client.post(f"{place}/query", json={"query": "token", "explain": True, "trace": True, "before": 1}).json()
    chunk, file = hits["results"][0]["chunk_id"], hits["results"][0]["file_id"]
    client.post(f"{place}/query", json={"queries": ["token", "JWT"], "group_by_file": True})
    for refused in ({"query": ""}, {"query": "a", "rerank": "model"}, {"query": "a", "filters": {"types": ["pdf"]}}):
        assert client.post(f"{place}/query", json=refused).status_code == 422
    assert client.post(f"{place}/query", content="{", headers=JSON).status_code == 400
    client.post("/api/search", json={"project_id": PROJECT, "query": "token", "tool_ids": [tool], "trace": True})
    client.post("/api/search", json={"project_id": PROJECT, "query": "token", "paths": ["/nowhere"]})
    client.post(f"{place}/grep", json={"pattern": "token", "before": 1})
    client.post(f"{place}/grep", json={"pattern": "(", "regex": True})
    client.get(f"{place}/chunks/{chunk}", params={"after": 1})
    client.get(f"{place}/chunks/none")
    client.get(f"{place}/files/{file}")
    client.get(f"{place}/files/{file}", params={"start_line": 0})
    client.get(f"{place}/files/{file}/chunks")
    client.get(f"{place}/files/none/chunks")
    client.get(f"{place}/symbols")
    client.get(f"{place}/references", params={"name": "parse"})
    client.get(f"{place}/references")
    client.get(f"{place}/metadata")
    client.get(f"{place}/outline", params={"path": "token.py"})
    client.get(f"{place}/outline", params={"path": "nowhere"})
    client.get(f"{place}/impact", params={"name": "parse"})
    client.get(f"{place}/symbols/callers", params={"name": "parse"})
    client.get(f"{place}/symbols/callees", params={"name": "read_token"})


def tree_calls(running: Service, tool: str) -> None:
    client, tree = running.client, f"{TOOLS}/{tool}/raptor"
    for place in (tree, f"{TOOLS}/none/raptor"):
        for part in ("/status", "/estimate", "/nodes"):
            client.get(place + part)
        client.post(f"{place}/build")
    eventually(lambda: client.get(f"{tree}/status").json()["has_index"], 60, running.logs)
    assert client.get(f"{tree}/nodes", params={"level": 0}).json()["items"]
    assert client.post(f"{TOOLS}/{tool}/query", json={"query": "token", "tree": "collapsed"}).json()["results"]
    client.post(f"{tree}/cancel")
    client.delete(tree)
    refused = client.post(f"{TOOLS}/{tool}/query", json={"query": "token", "tree": "collapsed"})
    assert (refused.status_code, refused.json()["code"]) == (422, "no_tree")


def key_calls(client: httpx.Client) -> None:
    place = f"/api/projects/{PROJECT}/keys"
    made = client.post(place, json={"name": "reader", "scopes": ["search"], "expires": "1d"}).json()
    client.post(place, json={"scopes": []})
    client.get(place)
    for key in (made["id"], "none"):
        client.post(f"{place}/{key}/rotate", json={"overlap": "0s"})
    client.post(f"{place}/{made['id']}/rotate")
    lone = client.post(place, json={}).json()["id"]
    for key in (made["id"], lone, "none"):
        client.delete(f"{place}/{key}")


def tool_calls(client: httpx.Client, tool: str) -> None:
    for place in (f"{TOOLS}/{tool}", f"{TOOLS}/none"):
        for part in ("", "/status", "/tasks", "/files", "/events"):
            client.get(place + part)
        client.patch(place, json={"name": "tokens"})
        for action in ("reindex", "cancel", "retry"):
            client.post(f"{place}/{action}")
    for project in (PROJECT, "nobody"):
        client.post(f"/api/projects/{project}/reindex")
    client.patch(f"{TOOLS}/{tool}", json={"config": {"embedding_model": "openai/of-others"}})
    client.post(TOOLS, json={"project_id": PROJECT, "source": {"kind": "local", "path": "/outside"}})
    for listed in (TOOLS, f"{TOOLS}/statuses"):
        client.get(listed)
        client.get(listed, params={"cursor": "wrong"})
    client.get(TOOLS, headers={"host": "rebound.example"})
    client.post(TOOLS, json={}, headers={"origin": "http://other.example"})
    client.post(TOOLS, content=b" " * (MOST + 1))
    for place in (f"{TOOLS}/{tool}", f"/api/projects/{PROJECT}", "/api/projects/nobody"):
        client.delete(place)
    for probe in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/access",
        "/api/hosts",
        "/api/models",
        "/api/models?check=true",
        "/api/models?check=x",
        "/api/indexers",
        "/api/sources",
    ):
        client.get(probe)


def place_calls(running: Service, root: Path) -> None:
    client, links = running.client, page_links_file(running.home)
    for path in (None, str(root), "/outside", "relative"):
        client.get("/api/places", params={} if path is None else {"path": path})
    for link in (new_link(links), "used"):
        opened = client.post("/api/session", json={"link": link})
        headers = {"Foldex-Session": opened.json()["session"]} if opened.is_success else {}
        client.post("/api/places", json={"path": str(root)}, headers=headers)
        client.post("/api/places", json={"path": "relative"}, headers=headers)


def test_every_answer_is_as_described(running: Service, witness: Witness, tool: str, root: Path) -> None:
    content_calls(running.client)
    place_calls(running, root)
    question_calls(running.client, tool)
    tree_calls(running, tool)
    key_calls(running.client)
    tool_calls(running.client, tool)
    assert {name for name, status in witness.seen if status < 300} == witness.ids
    refused = {(name, status) for name, status in witness.seen if status >= 400}
    assert {status for _, status in refused} == {400, 403, 404, 409, 413, 422}
