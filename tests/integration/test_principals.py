"""The header `Foldex-Principals`: who may send it, what it may hold, and for whom a caller then acts."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from api.http.dependencies import Caller, CallerDep, cached_caller
from api.http.lookup_cache import LookupCaches
from api.identity.principals import HEADER, sent
from api.main import create_app
from foldex_client import Foldex
from schemas.content.acl import EVERYTHING, MAX_PRINCIPALS, Sight
from schemas.errors import Invalid
from schemas.scopes import Scope
from worker.settings import Settings
from worker.state.access import keys
from worker.state.pool import Pool


class Gateway:
    """A program that calls with a key, and names the principals of its own callers."""

    def __init__(self, app: FastAPI, pool: Pool, *scopes: Scope) -> None:
        self.app = app
        self.client = TestClient(app, client=("127.0.0.1", 1), base_url="http://127.0.0.1")
        self.project = f"p-{uuid4()}"
        key = keys.create(pool, self.project, "gateway", scopes)[1] if scopes else None
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(self, *values: bytes) -> tuple[int, dict[str, Any]]:
        """Status and body of `GET /api/access` with these headers."""
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        answer = self.client.get("/api/access", headers=[*headers, *((HEADER.encode(), each) for each in values)])
        return answer.status_code, answer.json()

    def sights(self, value: bytes | None) -> set[Sight]:
        """As whom both kinds of routes, those with a fresh and those with a cached caller, take a request."""
        seen: list[Caller] = []
        path = f"/api/{uuid4()}"

        def fresh(request: Request, caller: CallerDep) -> None:
            seen.append(caller)

        async def cached(request: Request) -> None:
            caches: LookupCaches = request.app.state.lookup_caches
            seen.append(await cached_caller(request, request.app.state.resources, caches))

        self.app.get(path)(fresh)
        self.app.post(path)(cached)
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        sent = headers if value is None else [*headers, (HEADER.encode(), value)]
        for method in ("GET", "POST"):
            assert self.client.request(method, path, headers=cast("Any", sent)).status_code == 200
        return {caller.sight for caller in seen}


@pytest.fixture
def app(database_url: str, tmp_path: Any) -> FastAPI:
    return create_app(Settings(database_url=database_url, foldex_home=tmp_path, auth="on"))


@pytest.fixture
def gateway(app: FastAPI, pool: Pool) -> Gateway:
    return Gateway(app, pool, "search", "impersonate")


@pytest.mark.parametrize(
    ("value", "principals"),
    [
        (b"", set()),
        (b" \t", set()),
        (b"user:ann@x.org", {"user:ann@x.org"}),
        (b"user:ann , group:hr,group:hr", {"user:ann", "group:hr"}),
        (b"user:Doe%2C Ann%25", {"user:Doe, Ann%"}),
        (b"user:a%2cb", {"user:a,b"}),
        ("user:Jürgen,user:J%C3%BCrgen".encode(), {"user:Jürgen"}),
        (b"user:a+b", {"user:a+b"}),
        ("user:voilà".encode(), {"user:voilà"}),
        ("group:успех,group:Å , user:x\u00a0".encode(), {"group:успех", "group:Å", "user:x\u00a0"}),
    ],
)
def test_a_caller_acts_for_whom_the_header_names(gateway: Gateway, value: bytes, principals: set[str]) -> None:
    status, access = gateway.ask(value)
    assert (status, access["principals"]) == (200, len(principals))
    assert gateway.sights(value) == {Sight(frozenset(principals))}


def test_without_the_header_a_caller_acts_for_itself(app: FastAPI, pool: Pool, gateway: Gateway) -> None:
    assert gateway.ask()[1]["principals"] is None
    assert gateway.sights(None) == {Sight(frozenset())}
    everything = Gateway(app, pool, "write", "impersonate", "all_documents")
    assert everything.sights(None) == {EVERYTHING}
    assert everything.sights(b"user:ann") == {Sight(frozenset({"user:ann"}))}
    assert everything.sights(b"") == {Sight(frozenset())}


@pytest.mark.parametrize("scopes", [("search",), ("admin", "all_documents")])
@pytest.mark.parametrize("value", [b"user:ann", b"", b"%"])
def test_only_a_key_that_may_impersonate_sends_it(
    app: FastAPI, pool: Pool, scopes: tuple[Scope, ...], value: bytes
) -> None:
    status, problem = Gateway(app, pool, *scopes).ask(value)
    assert (status, problem["code"]) == (403, "scope_missing")
    assert "`impersonate`" in problem["detail"]


MALFORMED = [
    b"user:ann,",
    b",",
    b"user:ann,,group:hr",
    b"ann",
    b"*",
    b"!group:hr",
    b"user:",
    b"User:ann",
    b"user:a%",
    b"user:a%2",
    b"user:a%zz",
    b"user:a%0Agroup:hr",
    b"user:a%00",
    b"user:a%E2%80%A8b",
    b"user:%ff",
    b"user:" + b"a" * 300,
    b"user:" + b"%C3%BC" * 200,
    b",".join(b"u:%d" % number for number in range(MAX_PRINCIPALS + 1)),
]


@pytest.mark.parametrize("value", MALFORMED, ids=lambda value: value[:24].decode("latin-1"))
def test_a_malformed_header_is_refused_and_named(app: FastAPI, pool: Pool, gateway: Gateway, value: bytes) -> None:
    status, problem = gateway.ask(value)
    assert (status, problem["code"]) == (422, "invalid_request")
    assert HEADER in problem["detail"]
    assert len(problem["detail"]) < 250


@pytest.mark.parametrize("value", [b"user:\xff", b"\xa0", b"\x85", b"user:ann\xa0"])
def test_bytes_that_are_no_utf8_are_refused(value: bytes) -> None:
    with pytest.raises(Invalid, match=HEADER):
        sent(Headers(raw=[(HEADER.lower().encode(), value)]))


def test_two_headers_are_refused(gateway: Gateway) -> None:
    status, problem = gateway.ask(b"user:ann", b"group:hr")
    assert (status, HEADER in problem["detail"]) == (422, True)


def test_as_many_principals_as_are_allowed_are_taken(gateway: Gateway) -> None:
    value = b",".join(b"u:%d" % number for number in range(MAX_PRINCIPALS))
    assert gateway.ask(value)[1]["principals"] == MAX_PRINCIPALS
    longest = quote("user:" + "ü" * 125).encode()
    assert gateway.ask(longest)[1]["principals"] == 1


def test_without_keys_everybody_sees_all_but_must_write_it_well(database_url: str, tmp_path: Any, pool: Pool) -> None:
    operator = Gateway(create_app(Settings(database_url=database_url, foldex_home=tmp_path, auth="off")), pool)
    assert operator.sights(b"user:ann") == {EVERYTHING}
    status, problem = operator.ask(b"user:")
    assert (status, HEADER in problem["detail"]) == (422, True)


def test_no_log_line_names_a_principal(gateway: Gateway, capfd: pytest.CaptureFixture[str]) -> None:
    for value in (b"user:secret-person", b"user:secret-person,"):
        gateway.ask(value)
    said = capfd.readouterr()
    assert "/api/access" in said.out + said.err
    assert "secret-person" not in said.out + said.err


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        (b"user:ann,group:hr", b"user:ann,group:hr"),
        ("user:voilà,group:%C3%A9".encode(), b"user:voil%C3%A0,group:%C3%A9"),
    ],
)
def test_the_calls_of_an_agent_name_the_same_principals(
    app: FastAPI, gateway: Gateway, value: bytes, passed: bytes
) -> None:
    asked: list[tuple[str, list[bytes]]] = []

    class Witness:
        def __init__(self, app: ASGIApp) -> None:
            self._app = app

        async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                values = [value for name, value in scope["headers"] if name == HEADER.lower().encode()]
                asked.append((scope["path"], values))
            await self._app(scope, receive, send)

    app.add_middleware(Witness)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_folders", "arguments": {}}}
    headers: Any = {name.encode(): text.encode() for name, text in gateway.headers.items()}
    headers |= {HEADER.encode(): value, b"Accept": b"application/json, text/event-stream"}
    answer = gateway.client.post("/mcp", json=call, headers=headers)
    assert answer.status_code == 200
    assert "internal error" not in answer.text.lower()
    assert len(asked) > 1
    assert {path: set(values) for path, values in asked} == {
        path: {value if path == "/mcp" else passed} for path, _ in asked
    }
    assert "/mcp" in {path for path, _ in asked}


@pytest.mark.parametrize("principals", [[], ["user:Doe, Ann%", "group:größe", "role: padded "], ["user:ann@x.org"]])
def test_the_client_sends_principals_as_they_are(gateway: Gateway, principals: list[str]) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get(HEADER))
        assert sent(Headers(request.headers)) == frozenset(principals)
        return httpx.Response(200, json={"status": "alive"})

    with Foldex("http://127.0.0.1", principals=principals, transport=httpx.MockTransport(answer)) as client:
        client.health()
    assert seen[0] is not None
    assert gateway.ask(seen[0].encode())[1]["principals"] == len(principals)
    with pytest.raises(TypeError, match="one text"):
        Foldex("http://127.0.0.1", principals="user:ann")
