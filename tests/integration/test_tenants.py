"""Answers to a project's key, and to no key, about things of another project: the same as for missing things."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from cachetools import TTLCache
from fastapi.testclient import TestClient

from api.http import current_lists, lookup_cache
from api.http.lookup_cache import LookupCache
from api.main import create_app
from api.search.query import filters
from tests.integration.test_keys import call, foldex, new_key
from tests.service import TOOLS, NewService, Service, checked, eventually, service
from worker.settings import LOCAL_LLM, LOCAL_MODEL, Settings

Ids = dict[str, str]
Call = dict[str, Any]

PROJECTS, TOOL = "/api/projects/{project_id}", f"{TOOLS}/{{tool_id}}"
NODES, KEYS = f"{PROJECTS}/nodes", f"{PROJECTS}/keys"
TREES = "/v1/knowledge-bases/{tool_id}/raptor"
FILES = {"files": ("a.md", b"# text")}
#: Of no project.
OPEN = {
    ("GET", path)
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/hosts",
        "/api/models",
        "/api/access",
        "/api/indexers",
        "/api/sources",
    )
} | {("POST", "/api/places"), ("POST", "/api/session")}
#: How each route is called. `{…}` in a body or a parameter is an id. A second call is another way to the data.
CALLS: dict[tuple[str, str], list[Call]] = {
    ("POST", TOOLS): [
        {"json": {"project_id": "{project_id}", "node_id": "{node_id}"}},
        {"json": {"project_id": "{project_id}", "source": {"kind": "local", "path": "{place}"}}},
        {"json": {"project_id": "{project_id}", "source": {"kind": "s3", "bucket": "{bucket}", "prefix": ""}}},
    ],
    ("GET", TOOLS): [{"params": {"project_id": "{project_id}"}}],
    ("GET", f"{TOOLS}/statuses"): [{"params": {"project_id": "{project_id}"}}],
    ("GET", TOOL): [{}],
    ("DELETE", TOOL): [{}],
    ("PATCH", TOOL): [{"json": {"name": "x"}}],
    ("GET", f"{TOOL}/status"): [{}],
    ("GET", f"{TOOL}/tasks"): [{}],
    ("GET", f"{TOOL}/files"): [{}],
    ("GET", f"{TOOL}/files/{{file_id}}"): [{}],
    ("GET", f"{TOOL}/files/{{file_id}}/chunks"): [{}],
    ("POST", f"{TOOL}/reindex"): [{}, {"json": {"paths": ["a.py"]}}],
    ("POST", f"{TOOL}/cancel"): [{}],
    ("POST", f"{TOOL}/retry"): [{}],
    ("GET", f"{TOOL}/events"): [{}],
    ("POST", f"{TOOL}/query"): [
        {"json": {"query": "x", "mode": "keyword"}},
        {"json": {"query": "x", "mode": "keyword", "filters": {"file_ids": ["{file_id}"]}}},
        {"json": {"query": "x", "tree": "collapsed"}},
    ],
    ("GET", f"{TOOL}/raptor/status"): [{}],
    ("GET", f"{TOOL}/raptor/estimate"): [{}],
    ("GET", f"{TOOL}/raptor/nodes"): [{}, {"params": {"parent": "{chunk_id}"}}],
    ("POST", f"{TOOL}/raptor/build"): [{}, {"json": {"full": True}}],
    ("POST", f"{TOOL}/raptor/cancel"): [{}],
    ("DELETE", f"{TOOL}/raptor"): [{}],
    ("POST", f"{TOOL}/grep"): [{"json": {"pattern": "x"}}],
    ("GET", f"{TOOL}/symbols"): [{"params": {"name": "ledger"}}],
    ("GET", f"{TOOL}/references"): [{"params": {"name": "ledger"}}, {"params": {"file_id": "{file_id}"}}],
    ("GET", f"{TOOL}/metadata"): [{}],
    ("GET", f"{TOOL}/outline"): [{}, {"params": {"path": "a.py"}}],
    ("GET", f"{TOOL}/impact"): [{"params": {"name": "ledger"}}],
    ("GET", f"{TOOL}/symbols/callers"): [{"params": {"name": "ledger"}}],
    ("GET", f"{TOOL}/symbols/callees"): [{"params": {"name": "ledger", "file_id": "{file_id}"}}],
    ("GET", f"{TOOL}/chunks/{{chunk_id}}"): [{}],
    ("GET", "/api/places"): [{"params": {"path": "{place}"}}],
    ("POST", "/api/search"): [
        {"json": {"project_id": "{project_id}", "query": "x", "mode": "keyword", "tool_ids": ["{tool_id}"]}},
        {"json": {"project_id": "{project_id}", "query": "x", "mode": "keyword", "paths": ["{place}"]}},
        {"json": {"project_id": "{project_id}", "query": "x", "mode": "keyword", "paths": ["s3://{bucket}/a"]}},
        {"json": {"project_id": "{project_id}", "query": "x", "paths": ["{place}"], "index_missing": True}},
        {"json": {"project_id": "{project_id}", "query": "x", "paths": ["s3://{bucket}/a"], "index_missing": True}},
    ],
    ("POST", NODES): [{"json": {"name": "x", "type": "folder", "parent_id": "{node_id}"}}],
    ("GET", NODES): [{}, {"params": {"parent_id": "{node_id}"}}],
    ("GET", f"{NODES}/{{node_id}}"): [{}],
    ("GET", f"{NODES}/{{node_id}}/content"): [{}],
    ("PATCH", f"{NODES}/{{node_id}}"): [{"json": {"name": "x"}}],
    ("DELETE", f"{NODES}/{{node_id}}"): [{}],
    ("POST", f"{PROJECTS}/uploads"): [
        {"params": {"parent_id": "{node_id}"}, "files": FILES},
        {"data": {"parent_id": "{node_id}"}, "files": FILES},
        {"data": {"parent_id": "{node_id}", "index": "true"}, "files": FILES},
    ],
    ("POST", f"{PROJECTS}/reindex"): [{}, {"json": {"full": True}}],
    ("DELETE", PROJECTS): [{}],
    ("POST", KEYS): [{"json": {"name": "x"}}],
    ("GET", KEYS): [{}],
    ("POST", f"{KEYS}/{{key_id}}/rotate"): [{}, {"json": {"overlap": "1h"}}],
    ("DELETE", f"{KEYS}/{{key_id}}"): [{}],
}
#: Other paths of calls, and methods, which the document leaves out.
ALIASES: dict[tuple[str, str], list[Call]] = {
    ("GET", f"{NODES}/{{uploaded_id}}/content"): [{}],
    ("HEAD", f"{NODES}/{{uploaded_id}}/content"): [{}],
    ("GET", f"{TREES}/status"): [{}],
    ("GET", TREES): [{}],
    ("POST", f"{TREES}/build"): [{}],
    ("POST", TREES): [{}],
    ("DELETE", TREES): [{}],
}
EVERY_CALL = CALLS | ALIASES
#: Agents, who are answered 200 with an error in words: tests/integration/test_agents.py compares those.
AGENTS: dict[tuple[str, str], list[Call]] = {
    ("POST", "/mcp"): [
        {
            "json": {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "search", "arguments": {"query": "x", "folder": "{tool_id}"}},
            },
            "headers": {"Accept": "application/json, text/event-stream"},
        }
    ]
}
WITH_AGENTS = EVERY_CALL | AGENTS
#: Routes whose answers about a project or tool of the caller cannot reveal others.
PARTS = ("{file_id}", "{chunk_id}", "{node_id}", "{uploaded_id}", "{key_id}", "{place}", "{bucket}", "['{tool_id}']")


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, s3: dict[str, str]) -> Iterator[Service]:
    env = {
        **s3,
        "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL,
        "DEFAULT_LLM_MODEL": LOCAL_LLM,
        "LOCAL_SOURCE_ROOTS": str(root),
        "AUTH": "on",
    }
    import boto3

    boto3.client("s3", endpoint_url=s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="contents")
    with new_service(partial(service), **env, S3_BUCKET="contents") as started:
        yield started


def indexed(running: Service, root: Path, project: str) -> tuple[str, Ids]:
    """A project's key, and the ids of all its objects."""
    key, place = new_key(running, project), root / project
    place.mkdir()
    (place / "a.py").write_text("def ledger():\n    return entry()\n")
    assert foldex(running, "grants", "add", project, str(place)).returncode == 0
    source = {"kind": "local", "path": str(place)}
    tool = checked(call(running, "POST", TOOLS, key, project_id=project, source=source), 202)["tool_id"]
    folder = checked(call(running, "POST", f"/api/projects/{project}/nodes", key, name="f", type="folder"), 201)["id"]
    headers, parent = {"Authorization": f"Bearer {key}"}, {"parent_id": folder}
    uploads = f"/api/projects/{project}/uploads"
    uploaded = checked(running.client.post(uploads, headers=headers, data=parent, files=FILES), 200)
    eventually(
        lambda: call(running, "GET", f"{TOOLS}/{tool}/status", key).json()["status"] == "ready", 60, running.logs
    )
    (file,) = call(running, "GET", f"{TOOLS}/{tool}/files", key).json()["items"]
    (hit,) = call(running, "POST", f"{TOOLS}/{tool}/query", key, query="ledger", mode="keyword").json()["results"]
    ids = {"project_id": project, "tool_id": tool, "node_id": folder, "place": str(place), "bucket": f"of-{project}"}
    # of no caller here, so that it may end
    ids["key_id"] = call(running, "POST", f"/api/projects/{project}/keys", key, name="other").json()["id"]
    ids |= {"file_id": file["file_id"], "chunk_id": hit["chunk_id"], "uploaded_id": uploaded["items"][0]["file_id"]}
    return key, ids


@pytest.fixture(scope="module")
def theirs(running: Service, root: Path, s3: dict[str, str]) -> Ids:
    import boto3

    boto3.client("s3", endpoint_url=s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="of-first")
    return indexed(running, root, "first")[1]


@pytest.fixture(scope="module")
def mine(running: Service, root: Path) -> tuple[str, Ids]:
    return indexed(running, root, "second")


@pytest.fixture(scope="module")
def client(running: Service) -> Iterator[TestClient]:
    """An API of this process over the service's database."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in running.env.items():
            patch.setenv(name, value)
        app = create_app(Settings())
        # cached entries stay, so that statements do not depend on the clock
        known = app.state.lookup_caches
        known.indexes, known.keys = LookupCache(known.indexes._read, 3600), LookupCache(known.keys._read, 3600)
        yield TestClient(app)


def routes(running: Service) -> list[tuple[str, str]]:
    """All routes, as the application reports them."""
    paths = running.get("/openapi.json")["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def nobodys(root: Path) -> Ids:
    ids = {name: str(uuid4()) for name in ("tool_id", "node_id", "uploaded_id", "file_id", "chunk_id", "key_id")}
    return {**ids, "project_id": "nobody", "place": str(root / "nobody"), "bucket": "of-nobody"}


def filled(value: Any, ids: Ids) -> Any:
    """A call with ids in place of their names."""
    if isinstance(value, str):
        for name, id_ in ids.items():
            value = value.replace(f"{{{name}}}", id_)
        return value
    if isinstance(value, dict):
        return {name: filled(inner, ids) for name, inner in value.items()}
    return [filled(inner, ids) for inner in value] if isinstance(value, list) else value


@contextmanager
def counted() -> Iterator[list[str]]:
    """Record the statements that this process sends to Postgres."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def counting(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        # the pool sets up and tests connections at any time, and the use of a key is noted once a minute
        is_of_pool = any(part in str(query)[:40] for part in ("SET ", "'SELECT 1'", "SHOW ")) or query == "SELECT 1"
        if not is_of_pool and "SET last_used_at" not in str(query):
            sent.append(str(query)[:200])
        return execute(self, query, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", counting)
        yield sent


def answered(client: TestClient, key: str, route: tuple[str, str], asked: Call, ids: Ids) -> tuple[int, str, list[str]]:
    """Status, text with the names of ids, and the statements sent. Called twice: the first call fills caches."""
    method, path = route
    headers = {"Authorization": f"Bearer {key}"}
    with counted() as sent:
        for _ in range(2):
            answer = client.request(method, filled(path, ids), headers=headers, **filled(asked, ids))
    text = answer.text
    for name, id_ in ids.items():
        text = text.replace(id_, f"{{{name}}}")
    return answer.status_code, text, sent


def forget_own_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the calls before left in memory of the caller's own index, and keep what is next for long."""
    monkeypatch.setattr(filters, "_states", LookupCache(filters._states._read, 3600))
    monkeypatch.setattr(current_lists, "_versions", TTLCache(10, 3600))


def test_every_route_is_walked(running: Service) -> None:
    assert set(routes(running)) == set(CALLS) | OPEN


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("route", EVERY_CALL, ids=" ".join)
def test_what_is_anothers_is_answered_as_what_does_not_exist(
    client: TestClient,
    root: Path,
    theirs: Ids,
    mine: tuple[str, Ids],
    route: tuple[str, str],
    own: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Call it. With `own`, objects of another project are requested through the caller's own project and tool."""
    key, ids = mine
    # from here on the caller's own key and tool are cached
    body = {"query": "x", "mode": "keyword"}
    client.post(f"{TOOLS}/{ids['tool_id']}/query", json=body, headers={"Authorization": f"Bearer {key}"})
    for asked in EVERY_CALL[route]:
        held = {name: ids[name] for name in ("project_id", "tool_id")} if own else {}
        if own and "tool_ids" in str(asked):
            held.pop("tool_id")
        if own and not any(part in f"{route}{asked}" for part in PARTS):
            continue
        there, missing = ({**some, **held} for some in (theirs, nobodys(root)))
        forget_own_index(monkeypatch)
        found = answered(client, key, route, asked, there)
        forget_own_index(monkeypatch)
        not_found = answered(client, key, route, asked, missing)
        assert found[:2] == not_found[:2]
        assert found[2] == not_found[2]
        assert own or found[0] in {404, 422}


@pytest.mark.parametrize("route", EVERY_CALL, ids=" ".join)
def test_a_request_looks_its_key_up_once(
    client: TestClient, root: Path, mine: tuple[str, Ids], route: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_cache, "CACHE_SECONDS", 3600)
    client.app.state.lookup_caches.forget()  # type: ignore[attr-defined] # TestClient declares any ASGI application
    (method, path), ids = route, nobodys(root)
    with counted() as sent:
        client.request(
            method,
            filled(path, ids),
            headers={"Authorization": f"Bearer {mine[0]}"},
            **filled(EVERY_CALL[route][0], ids),
        )
    assert sum("FROM api_key WHERE key_hash" in statement for statement in sent) == 1


@pytest.mark.parametrize("route", WITH_AGENTS, ids=" ".join)
def test_without_a_valid_key_all_is_unauthorized_alike(
    running: Service, root: Path, theirs: Ids, route: tuple[str, str], revoked: str
) -> None:
    said = set()
    for ids in (theirs, nobodys(root)):
        for asked in WITH_AGENTS[route]:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {revoked}"}):
                method, path = route
                given = {**filled(asked, ids), "headers": headers}
                answer = running.client.request(method, filled(path, ids), **given)
                said.add((answer.status_code, answer.text, answer.headers["www-authenticate"]))
    assert {status for status, *_ in said} == {401}
    assert len(said) == 1


@pytest.fixture(scope="module")
def revoked(running: Service) -> str:
    key = new_key(running, "first")
    listed = foldex(running, "keys", "list", "first").stdout.splitlines()
    assert foldex(running, "keys", "revoke", listed[-1].split()[0]).returncode == 0
    eventually(lambda: call(running, "GET", TOOLS, key).status_code == httpx.codes.UNAUTHORIZED, 20)
    return key


def test_a_key_that_another_process_revokes_ends_at_once_but_for_queries(running: Service, client: TestClient) -> None:
    headers = {"Authorization": f"Bearer {new_key(running, 'third')}"}
    nodes = "/api/projects/third/nodes"

    def statuses() -> list[int]:
        query = {"query": "x", "mode": "keyword"}
        return [
            client.post(f"{TOOLS}/{uuid4()}/query", headers=headers, json=query).status_code,
            client.get(TOOLS, headers=headers).status_code,
            client.get(nodes, headers=headers).status_code,
            client.post(nodes, headers=headers, json={"name": "f", "type": "folder"}).status_code,
        ]

    assert statuses() == [404, 200, 200, 201]
    assert running.rows("UPDATE api_key SET revoked_at = now() WHERE project_id = 'third' RETURNING 1") == [(1,)]
    # a query believes the cache, whose entries stay here
    assert statuses() == [404, 401, 401, 401]


def test_what_a_process_deletes_is_gone_from_its_cache(running: Service, client: TestClient) -> None:
    headers, project = {"Authorization": f"Bearer {new_key(running, 'fourth')}"}, "/api/projects/fourth"
    node = client.post(f"{project}/nodes", headers=headers, json={"name": "f", "type": "folder"}).json()["id"]
    new = {"project_id": "fourth", "node_id": node}
    # both have one index, which outlives the first
    first, second = (client.post(TOOLS, headers=headers, json=new).json()["tool_id"] for _ in range(2))

    def asked() -> list[int]:
        query = {"query": "x", "mode": "keyword"}
        return [
            client.post(f"{TOOLS}/{tool}/query", headers=headers, json=query).status_code for tool in (first, second)
        ]

    assert asked() == [200, 200]
    assert client.delete(f"{TOOLS}/{first}", headers=headers).is_success
    assert asked() == [404, 200]
    assert client.delete(project, headers=headers).is_success
    assert asked() == [401, 401]


@pytest.mark.parametrize("route", [route for route in WITH_AGENTS if route[0] != "GET"], ids=" ".join)
def test_a_revoked_key_is_refused_before_the_body_is_read(
    running: Service, theirs: Ids, revoked: str, route: tuple[str, str]
) -> None:
    host, port = running.client.base_url.host, running.client.base_url.port
    for sent in ("", f"Authorization: Bearer {revoked}\r\n"):
        with socket.create_connection((host, port), timeout=20) as caller:
            head = f"{route[0]} {filled(route[1], theirs)} HTTP/1.1\r\nHost: {host}:{port}\r\n{sent}"
            caller.sendall(f"{head}Content-Length: 99999\r\n\r\n[".encode())
            assert caller.recv(65536).startswith(b"HTTP/1.1 401 ")
