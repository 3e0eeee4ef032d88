"""What a client is told over a bare connection: each refusal arrives, and is a problem."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.http import protocol
from api.http.lookup_cache import LookupCaches
from api.http.middleware import MAX_PARAMETERS, RequestGate
from api.http.protocol import STALLED_BYTES
from tests.bare_server import Place, serving

MAX_BODY_BYTES = 1000
#: Bytes that no buffer between two sockets takes, so that the client still sends when it is answered.
LARGE = 24 << 20
#: The code of the answer to bytes that are no request.
UNREAD = b"invalid_http"
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\n"


async def accepts(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def no_pool() -> Any:
    raise AssertionError("no request of this module has a key")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    no_operations: Any = None
    app = RequestGate(
        accepts,
        is_open=True,
        max_body_bytes=MAX_BODY_BYTES,
        caches=LookupCaches(no_pool),
        operations=no_operations,
    )
    with serving(app) as served:
        yield served


def answered(place: Place, sent: bytes) -> tuple[bytes, dict[str, Any]]:
    """The first line of the answer and its body, once the server has closed the connection."""
    with socket.create_connection(place, 30) as client:
        client.sendall(sent)
        data = b"".join(iter(lambda: client.recv(1 << 16), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    if UNREAD in body:
        assert re.search(rb"x-request-id: [0-9a-f]{32}\r\n", head), head
    return head.splitlines()[0], json.loads(body)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"FOO /x HTTP/1.1\r\nHost: x\r\n\r\n", "method"),
        (b"\x16\x03\x01\x02\x00\x01", "https://"),
        (HEAD + b"Content-Length: abc\r\n\r\n", "Content-Length"),
        (b"GET http://[::/ HTTP/1.1\r\nHost: x\r\n\r\n", "url"),
        # as the HTTP client of Java asks first
        (HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 only"),
        (HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 only"),
    ],
)
def test_what_is_no_http_is_answered_with_a_problem(place: Place, sent: bytes, reason: str) -> None:
    status, problem = answered(place, sent)
    assert (status, problem["code"]) == (b"HTTP/1.1 400 Bad Request", UNREAD.decode())
    assert reason in problem["detail"]


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_who_asks_for_another_protocol_is_answered_in_this_one(place: Place, protocol: bytes) -> None:
    asked = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % protocol
    with socket.create_connection(place, 30) as client:
        # the connection stays open for the next request
        for sent in (asked, HEAD + counted(2)):
            client.sendall(sent)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize(("number", "status"), [(MAX_PARAMETERS, b"204"), (MAX_PARAMETERS + 1, b"422")])
def test_parameters_are_bounded(place: Place, number: int, status: bytes) -> None:
    with socket.create_connection(place, 30) as client:
        client.sendall(b"GET /x?%b HTTP/1.1\r\nHost: x\r\n\r\n" % b"&".join([b"a=b"] * number))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 " + status)


def chunked(size: int) -> bytes:
    return b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)


def counted(size: int) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (size, b"x" * size)


@pytest.mark.parametrize("framed", [counted, chunked])
@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, LARGE])
def test_a_client_that_sends_too_much_reads_why(place: Place, framed: Callable[[int], bytes], size: int) -> None:
    status, problem = answered(place, HEAD + framed(size))
    assert status.startswith(b"HTTP/1.1 413 ")
    assert problem["code"] == "too_large"


@pytest.mark.parametrize("framed", [counted, chunked])
def test_a_client_that_sends_slowly_after_its_answer_reads_it(
    framed: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)

    async def refuses(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    body = framed(16 * STALLED_BYTES)
    with serving(refuses) as place, socket.create_connection(place, 30) as client:
        client.sendall(HEAD)
        for start in range(0, len(body), STALLED_BYTES):
            client.sendall(body[start : start + STALLED_BYTES])
            time.sleep(0.1)
        client.sendall(HEAD + counted(0))
        answers = b""
        while answers.count(b"HTTP/1.1 503 ") < 2:
            answers += client.recv(1 << 16)
        # one that stops sending is not waited for
        client.sendall(HEAD + counted(9)[:-1])
        while client.recv(1 << 16):
            pass


def test_a_client_that_waits_for_leave_to_send_is_refused_at_once(place: Place) -> None:
    with socket.create_connection(place, 5) as client:
        client.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % LARGE)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


def test_a_body_as_long_as_allowed_is_accepted(place: Place) -> None:
    with socket.create_connection(place, 30) as client:
        client.sendall(HEAD + counted(MAX_BODY_BYTES))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 204 ")
