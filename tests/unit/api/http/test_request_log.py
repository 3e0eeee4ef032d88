"""The line of each request, and its id."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, MutableMapping
from threading import Thread
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
import structlog
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.testclient import TestClient
from starlette.types import Message
from structlog.testing import capture_logs

from api.http import request_log
from api.http.protocol import TimedProtocol
from api.http.request_log import HEADER, RequestLog
from api.main import create_app
from schemas.scopes import allowed
from tests import coroutines
from tests.service import eventually
from worker import app as queue
from worker.settings import Settings
from worker.state.access.keys import ValidKey

NOWHERE = "postgresql://127.0.0.1:1/none"
TOOLS = "/api/tools/search"
ACME = ValidKey(uuid4(), "acme", allowed(["search"]))
LOCAL = "http://127.0.0.1"
Lines = list[MutableMapping[str, Any]]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """Foldex without a database, and a route that breaks."""
    made = create_app(Settings(database_url=NOWHERE, auth="off", max_body_bytes=1000))

    @made.get("/breaks/{name}")
    def breaks(name: str) -> None:
        raise RuntimeError(name)

    return made


@pytest.fixture(scope="module")
def client(app: FastAPI) -> TestClient:
    return TestClient(app, LOCAL, raise_server_exceptions=False, client=("127.0.0.1", 1))


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        yield logged


def of_requests(lines: Lines) -> Lines:
    return [line for line in lines if line["event"] == "request"]


def test_a_request_has_one_line_without_its_address(client: TestClient, lines: Lines) -> None:
    headers = {HEADER: "mine-1", "Authorization": "Bearer secret-key"}
    client.post(f"{TOOLS}/secret-id/query?secret=query", json={"query": "secret-text"}, headers=headers)
    (line,) = of_requests(lines)
    assert line.pop("ms") >= 0
    expected = {"method": "POST", "route": f"{TOOLS}/{{tool_id}}/query", "status": 404, "request_id": "mine-1"}
    assert line == {"event": "request", "log_level": "info", **expected}
    assert "secret" not in str(lines)


@pytest.mark.parametrize(
    "given", ["a", "3f2b-91", "Root=1-67891233-abcdef", "x" * 128, "a.b:c/d+e@f_g", "0af7651916cd43dd8448eb211c80319c"]
)
def test_the_callers_id_is_answered(client: TestClient, lines: Lines, given: str) -> None:
    assert client.get("/no/such/place", headers={HEADER: given}).headers[HEADER] == given
    assert of_requests(lines)[0]["request_id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "a;b", 'quo"te', "line\\n", "<b>", "\xe4", "\x1b[31m"])
def test_an_id_that_is_not_acceptable_is_replaced(client: TestClient, lines: Lines, given: str) -> None:
    answered = client.get("/no/such/place", headers=[(HEADER.encode(), given.encode("latin-1"))]).headers[HEADER]
    assert re.fullmatch("[0-9a-f]{32}", answered)
    assert of_requests(lines)[0]["request_id"] == answered


def test_each_request_has_its_own_id(client: TestClient) -> None:
    assert len({client.get("/no/such/place").headers[HEADER] for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "route"),
    [
        ("GET", "/healthz", b"", 200, "/healthz"),
        ("GET", "/no/such/place", b"", 404, "unknown"),
        ("DELETE", TOOLS, b"", 405, TOOLS),
        ("POST", TOOLS, b"{", 400, TOOLS),
        ("POST", TOOLS, b"{}", 422, TOOLS),
        ("POST", TOOLS, b"x" * 1001, 413, "unknown"),
        ("GET", TOOLS, b"", 503, TOOLS),
        ("GET", "/breaks/name", b"", 500, "/breaks/{name}"),
    ],
)
def test_every_answer_has_an_id_and_a_line(
    client: TestClient, lines: Lines, method: str, path: str, body: bytes, status: int, route: str
) -> None:
    answer = client.request(method, path, content=body, headers={HEADER: "mine", "content-type": "application/json"})
    assert (answer.status_code, answer.headers.get_list(HEADER)) == (status, ["mine"])
    (line,) = of_requests(lines)
    assert (line["method"], line["route"], line["status"], line["request_id"]) == (method, route, status, "mine")
    # whatever else is logged for it says so
    assert {line["request_id"] for line in lines} == {"mine"}


def test_a_rejected_key_has_an_id_and_a_line(lines: Lines) -> None:
    client = TestClient(create_app(Settings(database_url=NOWHERE, auth="on")), raise_server_exceptions=False)
    answer = client.get(TOOLS, headers={HEADER: "mine"})
    assert (answer.status_code, answer.headers[HEADER]) == (401, "mine")
    assert of_requests(lines)[0]["status"] == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_are_logged_at_debug(client: TestClient, lines: Lines, path: str) -> None:
    client.get(path)
    assert [line["log_level"] for line in of_requests(lines)] == ["debug"]


def test_the_project_is_named(client: TestClient, lines: Lines) -> None:
    client.get("/api/projects/acme/nodes/some-node")
    client.get(TOOLS, params={"project_id": "x" * 500})
    assert [line["project"] for line in of_requests(lines)] == ["acme", "x" * 100]


def test_the_project_of_a_key_is_named(lines: Lines) -> None:
    app = create_app(Settings(database_url=NOWHERE, auth="on"))
    with patch.object(app.state.lookup_caches.keys, "cached", lambda _: ACME):
        client = TestClient(app, raise_server_exceptions=False)
        client.get(TOOLS, params={"project_id": "other"}, headers={"Authorization": "Bearer key"})
    assert [line["project"] for line in of_requests(lines)] == ["acme"]


def test_the_first_project_counts() -> None:
    """With AUTH=on that is the key's: callers may name others, which they do not see."""
    seen = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request_log.note_project("key's")
        request_log.note_project("named")
        seen["project"] = request_log._line.get().project

    async def nothing(*_: object) -> Any:
        return {}

    scope = {"type": "http", "method": "GET", "headers": []}
    coroutines.run(RequestLog(app)(scope, nothing, nothing))
    assert seen == {"project": "key's"}


def test_a_project_outside_of_a_request_is_ignored() -> None:
    request_log.note_project("nobody's")


# --- streams


async def stream(lines: Lines, *, parts: int, caller_leaves: bool) -> Lines:
    """Stream an answer, of which the caller may read only the first part. Returns the lines of requests."""
    app, left, logged_before = FastAPI(), asyncio.Event(), set[int]()
    app.add_middleware(RequestLog)

    @app.get("/stream")
    async def _() -> StreamingResponse:
        async def body() -> AsyncIterator[str]:
            for _ in range(parts):
                yield "part"
                await asyncio.sleep(0)

        return StreamingResponse(body())

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        logged_before.add(len(of_requests(lines)))
        if message.get("body") and caller_leaves:
            left.set()

    scope = {"type": "http", "method": "GET", "path": "/stream", "raw_path": b"/stream", "query_string": b""}
    await app({**scope, "headers": [], "asgi": {"spec_version": "2.3"}}, receive, send)
    # the line comes after the last part
    assert logged_before == {0}
    return of_requests(lines)


def test_a_stream_is_logged_when_its_body_ends(lines: Lines) -> None:
    (line,) = coroutines.run(stream(lines, parts=3, caller_leaves=False))
    assert (line["route"], line["status"], "left" in line) == ("/stream", 200, False)


def test_a_stream_that_its_caller_left_is_logged(lines: Lines) -> None:
    (line,) = coroutines.run(stream(lines, parts=10**9, caller_leaves=True))
    assert (line["status"], line["left"]) == (200, True)


def test_uvicorn_tells_that_the_caller_left(lines: Lines) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"part"
            await asyncio.sleep(0.01)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await StreamingResponse(endless())(scope, receive, send)

    config = uvicorn.Config(RequestLog(app), port=0, http=TimedProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, 20)
        with socket.create_connection(server.servers[0].sockets[0].getsockname(), timeout=20) as caller:
            caller.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n")
            assert b"\r\nx-request-id: mine\r\n" in caller.recv(65536)
            assert of_requests(lines) == []
        eventually(lambda: bool(of_requests(lines)), 20)
    finally:
        server.should_exit = True
        thread.join(20)
    (line,) = of_requests(lines)
    assert (line["status"], line["left"], line["request_id"]) == (200, True, "mine")


# --- what is passed on


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    headers: list[dict[str, Any]] = []
    monkeypatch.setattr(queue.app, "send_task", lambda *_, headers_=headers, **given: headers_.append(given["headers"]))
    return headers


def test_messages_of_a_request_carry_its_id(sent: list[dict[str, Any]]) -> None:
    with structlog.contextvars.bound_contextvars(request_id="mine"):
        queue.post(lambda: queue.send_plan(uuid4(), uuid4()))
    queue.post(lambda: queue.send_plan(uuid4(), uuid4()))
    queue._outbox.submit(lambda: None).result()
    assert sent == [{queue.REQUEST_ID: "mine"}, {}]


def test_a_slice_passes_the_id_on_to_its_own_task_only(sent: list[dict[str, Any]]) -> None:
    task, other = uuid4(), uuid4()
    with structlog.contextvars.bound_contextvars(request_id="mine", task_id=str(task)):
        for each in (task, other):
            queue.send("foldex.index", each, queue="bulk", shown="")
    assert sent == [{queue.REQUEST_ID: "mine"}, {}]
