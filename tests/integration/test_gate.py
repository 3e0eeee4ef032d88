"""Requests rejected before their body is parsed: callers without a key, pages of other sites, oversized bodies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

import httpx
import orjson
import pytest
import uvicorn

from api.http.protocol import TimedProtocol
from tests.integration.test_keys import new_key
from tests.service import PROJECT, TOOLS, Service, another_api, eventually
from tests.shared_service import MAX_BODY_BYTES

NODES = f"/api/projects/{PROJECT}/nodes"


@pytest.fixture(scope="module")
def running(behind_keys: Service) -> Service:
    return behind_keys


@pytest.fixture(scope="module")
def key(running: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {new_key(running, PROJECT)}", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def open_(running: Service) -> Iterator[Service]:
    """The same with AUTH=off."""
    with another_api(running, AUTH="off") as started:
        yield started


def node(size: int) -> bytes:
    """A body of this many bytes that creates a node."""
    body = orjson.dumps({"name": "a.txt", "type": "text", "content": ""})
    return body.replace(b'""', b'"' + b"x" * (size - len(body)) + b'"')


def assert_refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_is_taken_up_to_its_limit(running: Service, key: dict[str, str]) -> None:
    assert running.client.post(NODES, content=node(MAX_BODY_BYTES), headers=key).status_code == 201
    assert_refused(running.client.post(NODES, content=node(MAX_BODY_BYTES + 1), headers=key), 413, "too_large")


def test_a_body_of_unknown_length_is_taken_up_to_its_limit(running: Service, key: dict[str, str]) -> None:
    def pieces(size: int) -> Iterator[bytes]:
        body = node(size)
        for start in range(0, len(body), 30_000):
            yield body[start : start + 30_000]

    assert running.client.post(NODES, content=pieces(MAX_BODY_BYTES), headers=key).status_code == 201
    assert_refused(running.client.post(NODES, content=pieces(MAX_BODY_BYTES + 1), headers=key), 413, "too_large")


def test_an_upload_has_bounds_of_its_own(running: Service, key: dict[str, str]) -> None:
    files = {"files": ("large.txt", b"x" * (2 * MAX_BODY_BYTES))}
    headers = {"Authorization": key["Authorization"]}
    answer = running.client.post(f"/api/projects/{PROJECT}/uploads", files=files, headers=headers)
    assert answer.json()["items"][0]["outcome"] == "created"


def test_a_node_called_uploads_has_no_bounds_of_its_own(running: Service, key: dict[str, str]) -> None:
    body = {"id": "uploads", "name": "b.txt", "type": "text", "content": ""}
    assert running.client.post(NODES, json=body, headers=key).status_code == 201
    path = f"{NODES}/uploads"
    assert_refused(running.client.patch(path, content=node(MAX_BODY_BYTES + 1), headers=key), 413, "too_large")


@pytest.mark.parametrize("path", [TOOLS, NODES, "/api/search", "/api/nothing-here"])
def test_the_key_is_asked_for_before_the_body(running: Service, path: str) -> None:
    """A body that never arrives does not delay the 401 of a caller without a key, and is not read."""
    host, port = running.client.base_url.host, running.client.base_url.port
    for authorization in ("", "Authorization: Bearer wrong\r\n"):
        with socket.create_connection((host, port), timeout=20) as caller:
            head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}Content-Length: 99999\r\n\r\n["
            caller.sendall(head.encode())
            assert caller.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_list_of_a_filter_is_bounded(running: Service, key: dict[str, str]) -> None:
    body: dict[str, Any] = {"project_id": PROJECT, "query": "x", "paths": ["/none"]}
    for names, status in ((["s"] * 1001, 422), (["s"] * 1000, 422)):
        answer = running.client.post("/api/search", json={**body, "filters": {"symbols": names}}, headers=key)
        assert answer.status_code == status
        assert (answer.json()["code"] == "invalid_request") == (len(names) > 1000)
        assert len(answer.content) < 3000


def test_patterns_of_a_tool_are_bounded(running: Service, key: dict[str, str]) -> None:
    body = {"project_id": PROJECT, "source": {"kind": "local", "path": "/"}}
    for patterns in (["x"] * 1001, ["x" * 4097]):
        config = {"config": {"exclude": patterns}}
        answer = running.client.post(TOOLS, json={**body, **config}, headers=key)
        assert_refused(answer, 422, "invalid_request")
        assert len(answer.content) < 3000


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"Origin": "https://evil.example"}, True),
        ({"Origin": "null"}, True),
        ({"Origin": "http://127.0.0.1:1"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "{own}"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({}, False),
    ],
)
def test_a_page_of_another_site_changes_nothing(open_: Service, headers: dict[str, str], refused: bool) -> None:
    own = str(open_.client.base_url).rstrip("/")
    headers = {name: value.format(own=own) for name, value in headers.items()}
    files = {"files": ("a.md", b"# planted")}
    calls = [
        open_.client.post(f"/api/projects/{PROJECT}/uploads", files=files, headers=headers),
        open_.client.post(f"{TOOLS}/00000000-0000-0000-0000-000000000000/reindex", headers=headers),
        open_.client.delete(f"/api/projects/{PROJECT}/nodes/none", headers=headers),
    ]
    if refused:
        for answer in calls:
            assert_refused(answer, 403, "cross_site")
    else:
        assert [answer.status_code for answer in calls] == [200, 404, 404]
    assert open_.client.get(TOOLS, headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_no_answer_may_be_read_by_a_page_of_another_site(open_: Service, origin: str) -> None:
    """A browser shows an answer to a page of another site only if a header permits it."""
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "content-type"}
    for path in (TOOLS, "/healthz", "/api/nothing-here"):
        for method, headers in (("GET", {}), ("OPTIONS", asked), ("POST", {})):
            answer = open_.client.request(method, path, headers={"Origin": origin, **headers})
            assert [name for name in answer.headers if name.startswith("access-control-")] == []
            # an answer to OPTIONS says no more than which methods an address takes
            assert method != "OPTIONS" or answer.status_code >= 400 or not answer.content


def test_no_redirect_repeats_what_the_caller_said_its_host_is(open_: Service) -> None:
    answer = open_.client.get(f"{TOOLS}/", headers={"Host": "localhost:1"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_a_connection_whose_headers_never_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    monkeypatch.setattr("api.http.protocol.HEADER_SECONDS", 0.5)
    config = uvicorn.Config(app, port=0, http=TimedProtocol, lifespan="off", log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, 20)
        place = server.servers[0].sockets[0].getsockname()
        for before in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            with socket.create_connection(place, timeout=20) as caller:
                caller.sendall(before)
                if before:
                    assert caller.recv(65536).startswith(b"HTTP/1.1 204 ")
                caller.sendall(b"GET / HTTP/1.1\r\nHost: ")
                assert caller.recv(65536) == b""
    finally:
        server.should_exit = True
        thread.join(20)
