"""Clients that do not read their answers: they are dropped, their buffers are bounded, and others are served."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from api.http.protocol import TimedProtocol
from tests.bare_server import Place, serving
from tests.service import eventually

#: Bytes of an answer: several times what the system buffers between two sockets.
LARGE = 24 << 20


async def large_answers(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", str(LARGE).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with serving(large_answers) as served:
        yield served


@contextmanager
def asked(place: Place) -> Iterator[socket.socket]:
    """A client that has sent a query, and reads nothing by itself."""
    with socket.socket() as client:
        client.settimeout(30)
        # the less the system buffers, the sooner the server blocks
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.connect(place)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        yield client


def read(client: socket.socket, pause: float = 0.0) -> int:
    """Read bytes until the end, without a connection where there is none."""
    count = 0
    try:
        while got := client.recv(1 << 20):
            count += len(got)
            time.sleep(pause)
    except ConnectionResetError:
        pass
    return count


def test_who_reads_nothing_is_dropped_and_others_are_served(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.http.protocol.STALLED_SECONDS", 1.0)
    with asked(place) as silent:
        eventually(lambda: _is_behind(silent), 30)
        with asked(place) as other:
            assert read(other) > LARGE
        eventually(lambda: not _is_behind(silent), 30)
        assert read(silent) < LARGE


def test_who_reads_slowly_gets_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.http.protocol.STALLED_SECONDS", 1.0)
    monkeypatch.setattr("api.http.protocol.STALLED_BYTES", 1)
    with asked(place) as slow:
        eventually(lambda: _is_behind(slow), 30)
        assert read(slow, pause=0.01) > LARGE


def test_what_is_held_for_those_who_are_behind_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "max_unsent", 2 * LARGE)
    with ExitStack() as stack:
        clients = []
        for _ in range(4):
            client = stack.enter_context(asked(place))
            eventually(partial(_is_behind, client), 30)
            clients.append(client)
        # the first two are dropped, in the order of their requests
        eventually(lambda: [_is_behind(client) for client in clients] == [False, False, True, True], 30)
        assert [read(client) > LARGE for client in clients] == [False, False, True, True]


def _is_behind(client: socket.socket) -> bool:
    return client.getsockname() in [protocol.client for protocol in list(TimedProtocol._behind)]
