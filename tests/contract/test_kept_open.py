"""Connections to a provider that stay open, over real sockets."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.fakes import server as fakes
from tests.service import eventually
from worker.embed import kept_open
from worker.embed.kept_open import KeptOpen, Origin


class Server(fakes.Server):
    """Counts connections. Answers a request once `together` requests have come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.accepted = self.open = 0
        self.counting = threading.Lock()
        self.together = threading.Barrier(1)

    @property
    def origin(self) -> Origin:
        return Origin(is_secure=False, host="127.0.0.1", port=self.server_port)

    def count(self, change: int) -> None:
        with self.counting:
            self.accepted += change > 0
            self.open += change


class Handler(fakes.Handler):
    """Answers with the body of the request."""

    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.count(1)

    def finish(self) -> None:
        self.server.count(-1)
        super().finish()

    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        body = self.rfile.read(int(self.lines["content-length"]))
        self.server.together.wait(20)
        self.send(200, body, {})


@contextmanager
def served() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with served() as running:
        yield running


@pytest.fixture
def connections() -> Iterator[KeptOpen]:
    kept = KeptOpen(ssl.create_default_context())
    yield kept
    for idle in kept._idle.values():
        for connection, _ in idle:
            connection.close()


def ask(connections: KeptOpen, server: Server, times: int = 1) -> None:
    """Send so many requests at once."""
    server.together = threading.Barrier(times)
    bodies = [b"%d" % number for number in range(times)]
    with ThreadPoolExecutor(times) as threads:
        answers = threads.map(lambda body: connections.post(server.origin, "/", {}, body, 20).content, bodies)
        assert list(answers) == bodies


def test_a_connection_is_used_again(server: Server, connections: KeptOpen) -> None:
    for _ in range(3):
        ask(connections, server)
    assert (server.accepted, server.open) == (1, 1)


def test_each_provider_is_asked_over_connections_of_its_own(server: Server, connections: KeptOpen) -> None:
    with served() as other:
        for each in (server, other, server, other):
            ask(connections, each)
        assert (server.accepted, other.accepted) == (1, 1)
        for connection, _ in connections._idle[other.origin]:
            connection.close()


@pytest.mark.parametrize(("times", "kept"), [(2, 2), (3, 3), (4, 3), (8, 3)])
def test_only_so_many_connections_stay_open(
    monkeypatch: pytest.MonkeyPatch, server: Server, connections: KeptOpen, times: int, kept: int
) -> None:
    monkeypatch.setattr(kept_open, "MAX_IDLE", 3)
    ask(connections, server, times)
    eventually(lambda: server.open == kept, 20)
    assert server.accepted == times


def test_connections_that_were_idle_for_long_are_closed(
    monkeypatch: pytest.MonkeyPatch, server: Server, connections: KeptOpen
) -> None:
    now = 100.0
    monkeypatch.setattr(kept_open, "time", SimpleNamespace(monotonic=lambda: now))
    ask(connections, server, 3)
    for _ in range(2):
        # the others stay unused, while one request at a time is sent
        now += kept_open.IDLE_SECONDS - 1
        ask(connections, server)
    eventually(lambda: server.open == 1, 20)
    assert server.accepted == 3
    now += kept_open.IDLE_SECONDS
    ask(connections, server)
    eventually(lambda: server.open == 1, 20)
    assert server.accepted == 4
