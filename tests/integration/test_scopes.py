"""All operations and tools of agents, with keys of each scope: what a key lacks is refused before anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from api.agents import code, find, manage, search
from api.agents.tool import AgentTool
from api.http.bodies import JsonRoute
from api.http.current_lists import CHECKED_WITHIN, WITHOUT_FILES
from api.http.scopes import NEEDED
from api.main import create_app
from api.routes import sources
from schemas.scopes import LEVELS, Scope, allowed
from tests import coroutines
from tests.integration.test_tenants import ALIASES, CALLS, OPEN, Call, counted, filled
from worker.settings import Settings
from worker.state.access import keys
from worker.state.pool import Pool

#: What keys of the walk have.
HELD: tuple[tuple[Scope, ...], ...] = (
    ("search",),
    ("write",),
    ("admin",),
    ("search", "impersonate"),
    ("write", "all_documents"),
)
#: Bodies of the calls that are of no project.
BODIES = {"/api/places": {"path": "/srv"}, "/api/session": {"link": "x"}}
TOOLS: tuple[AgentTool[Any], ...] = (search.TOOL, *find.TOOLS, *code.TOOLS, *manage.TOOLS, manage.DELETE)
#: The calls that read although they have a body, and those that need `admin`.
SEARCHES = ("/query", "/grep", "/api/search")
ADMIN = {
    ("DELETE", "/api/projects/{project_id}"),
    ("GET", "/api/projects/{project_id}/keys"),
    ("POST", "/api/projects/{project_id}/keys"),
    ("POST", "/api/projects/{project_id}/keys/{key_id}/rotate"),
    ("DELETE", "/api/projects/{project_id}/keys/{key_id}"),
    ("POST", "/api/places"),
    ("POST", "/api/session"),
}
#: Arguments that tools of agents need.
GIVEN = {"query": "x", "pattern": "x", "file": "a.md", "name": "x", "path": "/nowhere", "folder": "a"}
REFUSED = re.compile(r"needs a key with the scope `(\w+)`")


@pytest.fixture(scope="module")
def app(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    home = tmp_path_factory.mktemp("home")
    return create_app(Settings(database_url=database_url, foldex_home=home, auth="on", mcp_allow_delete=True))


def described(app: FastAPI) -> dict[tuple[str, str], str]:
    """The scope of each operation that needs a key, as the OpenAPI document says it."""
    return {
        (method.upper(), path): operation["security"][0]["bearer"][0]
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
        if "security" in operation
    }


def calls(app: FastAPI) -> Iterator[tuple[str, str, Call, str]]:
    """Each way of each call: method, path, what is sent, and the scope that it needs."""
    needed = described(app)
    for (method, path), scope in needed.items():
        for asked in CALLS.get((method, path), [{"json": BODIES[path]} if path in BODIES else {}]):
            yield method, path, asked, scope
    for (method, path), ways in ALIASES.items():
        # what only reads has the scope of what reads there
        yield from ((method, path, asked, "search" if method in {"GET", "HEAD"} else "write") for asked in ways)


def ids(project: str) -> dict[str, str]:
    names = ("tool_id", "node_id", "uploaded_id", "file_id", "chunk_id", "key_id")
    return {**{name: str(uuid4()) for name in names}, "project_id": project, "place": "/nowhere", "bucket": "nothing"}


def new_key(pool: Pool, scopes: tuple[Scope, ...]) -> tuple[str, str]:
    """A project of its own, and a key of it."""
    project = f"p-{uuid4()}"
    return project, keys.create(pool, project, "walk", scopes)[1]


def unread(app: FastAPI, method: str, path: str, key: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a request whose body is not read: that fails."""
    got: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "scheme": "http", "client": ("::1", 1),
        "headers": [(b"host", b"x"), (b"authorization", b"Bearer " + key.encode()), (b"content-length", b"99")],
        "server": ("x", 80),
    }  # fmt: skip # a line each says nothing

    async def receive() -> NoReturn:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        got.append(message)

    coroutines.run(app(scope, receive, send))
    start, *parts = got
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, b"".join(part.get("body", b"") for part in parts)


def test_every_operation_is_walked(app: FastAPI) -> None:
    assert set(described(app)) <= set(CALLS) | OPEN
    assert {path for _, path, *_ in calls(app)} >= {path for _, path in CALLS}


def test_what_changes_anything_needs_write_and_few_calls_admin(app: FastAPI) -> None:
    needed = described(app)
    reading = {(method, path) for method, path in needed if method == "GET" or path.endswith(SEARCHES)}
    assert {call for call, scope in needed.items() if scope == "admin"} == ADMIN
    assert {call for call, scope in needed.items() if scope == "search"} == reading - ADMIN


@pytest.mark.parametrize("held", HELD, ids=" ".join)
def test_a_key_may_call_what_its_scope_says(app: FastAPI, pool: Pool, held: tuple[Scope, ...]) -> None:
    client = TestClient(app, raise_server_exceptions=False)
    for method, path, asked, scope in calls(app):
        if scope not in allowed(held):
            continue
        project, key = new_key(pool, held)
        if "index_missing" in str(asked) and "write" not in allowed(held):
            continue
        sent, headers = filled(asked, ids(project)), {"Authorization": f"Bearer {key}"}
        answer = client.request(method, filled(path, ids(project)), headers=headers, **sent)
        assert answer.status_code not in {401, 405}, (method, path)
        assert "scope_missing" not in answer.text, (method, path, answer.text)


@pytest.mark.parametrize("held", [each for each in HELD if "admin" not in each], ids=" ".join)
def test_a_key_may_call_nothing_else_and_learns_nothing(app: FastAPI, pool: Pool, held: tuple[Scope, ...]) -> None:
    project, key = new_key(pool, held)
    client = TestClient(app)
    client.get("/api/access", headers={"Authorization": f"Bearer {key}"})
    walked = 0
    for method, path, _, scope in calls(app):
        if scope in allowed(held):
            continue
        walked += 1
        with counted() as sent:
            status, headers, body = unread(app, method, filled(path, ids(project)), key)
            # of another project
            assert unread(app, method, filled(path, ids("others")), key)[::2] == (status, body)
        assert status == 403, (method, path)
        assert b'"scope_missing"' in body
        assert REFUSED.findall(body.decode()) == [scope]
        assert headers["www-authenticate"] == f'Bearer error="insufficient_scope", scope="{scope}"'
        # the key is looked up, and nothing else
        assert all("FROM api_key WHERE key_hash" in statement for statement in sent), sent
    assert walked > 5


@pytest.mark.parametrize("held", HELD, ids=" ".join)
def test_agents_have_the_tools_that_their_key_allows(app: FastAPI, pool: Pool, held: tuple[Scope, ...]) -> None:
    _, key = new_key(pool, held)
    client = TestClient(
        app, headers={"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    )

    def asked(method: str, **params: Any) -> dict[str, Any]:
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        (data,) = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
        result: dict[str, Any] = json.loads(data)["result"]
        return result

    listed = {tool["name"] for tool in asked("tools/list")["tools"]}
    assert listed == {tool.name for tool in TOOLS if tool.scope in allowed(held)}
    for tool in TOOLS:
        needed = {name: GIVEN[name] for name, field in tool.arguments.model_fields.items() if field.is_required()}
        with counted() as sent:
            said = asked("tools/call", name=tool.name, arguments=needed)
        text = said["content"][0]["text"]
        if tool.name in listed:
            assert not REFUSED.search(text), (tool.name, text)
            continue
        assert REFUSED.findall(text) == [tool.scope]
        assert said["isError"]
        assert all("FROM api_key WHERE key_hash" in statement for statement in sent), sent


def test_a_search_that_starts_a_run_needs_write(app: FastAPI, pool: Pool, tmp_path: Path) -> None:
    client = TestClient(app)
    # the folder was not granted, so nothing starts
    cases: list[tuple[Scope, str]] = [("search", "scope_missing"), ("write", "no_such_files")]
    for held, code_ in cases:
        project, key = new_key(pool, (held,))
        headers = {"Authorization": f"Bearer {key}"}
        body = {"project_id": project, "query": "x", "paths": [str(tmp_path)], "index_missing": True}
        assert client.post("/api/search", json=body, headers=headers).json()["code"] == code_


#: Operations of the scope `search` that are not made again by the wrapper of `JsonRoute`, besides those of its lists.
NOT_WRAPPED = {
    "mcp": "it calls operations",
    "stream_events": "it shows no count if a file may be hidden",
}


def test_every_answer_holds_by_the_lists_at_its_end(app: FastAPI) -> None:
    unlike = CHECKED_WITHIN | WITHOUT_FILES | {*NOT_WRAPPED}
    assert unlike <= {name for name, scope in NEEDED.items() if scope == "search"}
    for route in iter_route_contexts(app.routes):
        if NEEDED.get(route.name or "") == "search":
            is_wrapped = hasattr(route.endpoint, "by_current_lists")
            assert is_wrapped == (route.name not in unlike), route.name


@pytest.mark.parametrize("is_described", [True, False])
def test_a_route_without_a_scope_stops_the_application(monkeypatch: pytest.MonkeyPatch, is_described: bool) -> None:
    router = APIRouter(route_class=JsonRoute)

    @router.get("/api/forgotten", include_in_schema=is_described)
    def forgotten() -> None:
        raise AssertionError

    both = APIRouter()
    both.include_router(sources.router)
    both.include_router(router)
    monkeypatch.setattr(sources, "router", both)
    with pytest.raises(LookupError, match="forgotten"):
        create_app(Settings(database_url="postgresql://127.0.0.1:1/none", auth="on"))


def test_a_scope_without_a_route_stops_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "router", APIRouter())
    with pytest.raises(LookupError, match="list_sources"):
        create_app(Settings(database_url="postgresql://127.0.0.1:1/none", auth="on"))


def test_a_tool_of_agents_without_a_scope_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="scope"):
        AgentTool("x", "X.", find.GrepArguments, find.grep)  # type: ignore[call-arg] # as somebody forgets it
    assert {tool.scope for tool in TOOLS} <= set(LEVELS)
