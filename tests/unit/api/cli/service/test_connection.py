"""How long a call waits for a service that does not answer, and what it says then."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from api.cli.invocation import Invocation, VerbFailed
from api.cli.service import connection
from api.cli.service.connection import Connection, sentence
from api.cli.service.local_calls import LocalCalls
from api.stack.processes import server_port
from api.stack.record import lock_file, try_lock
from foldex_client import FoldexError
from foldex_client.errors import ConnectionFailed, Invalid, NotFound, TimedOut, Unauthorized, UnexpectedAnswer

#: Seconds after which a service elsewhere is given up, and in which the supervisor of a stack starts an API again.
ABSENCE = 2.0
ANYONE = Invocation(server=None, key=None, project=None, as_json=False)


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"items": [], "next_cursor": null}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def late_service() -> Iterator[str]:
    """The address of a service that is absent at first."""
    port, stop = server_port(), Event()

    def serve() -> None:
        stop.wait(ABSENCE)
        with HTTPServer(("127.0.0.1", port), _Empty) as server:
            server.timeout = 0.1
            while not stop.is_set():
                server.handle_request()

    thread = Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        thread.join()


def test_a_call_waits_for_the_api_of_a_stack_that_starts_again(tmp_path: Path) -> None:
    with late_service() as url:
        service = Connection(url, tmp_path, ANYONE)
        assert list(service.foldex.tools.list()) == []
        service.close()


def test_a_service_elsewhere_is_given_up_sooner() -> None:
    with late_service() as url:
        service = Connection(url, None, ANYONE)
        with pytest.raises(ConnectionFailed):
            list(service.foldex.tools.list())
        service.close()


def test_a_service_that_says_nothing_is_given_up_after_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service = Connection(f"http://127.0.0.1:{silent.getsockname()[1]}", None, ANYONE)
        with pytest.raises(VerbFailed, match="did not answer in time"):
            service.call_locally("GET", "/healthz")
        with pytest.raises(TimedOut):
            service.foldex.health()
        service.close()
        silent.setblocking(False)
        asked = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                asked += 1
        assert asked == 2


def test_after_a_call_without_an_answer_the_next_one_has_its_own() -> None:
    answers = Event()

    class Slow(_Empty):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/first":
                answers.wait(30)
            body = json.dumps({"of": self.path}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        Thread(target=server.serve_forever, args=[0.01]).start()
        calls = LocalCalls(f"http://127.0.0.1:{server.server_port}", None, timeout=1.0)
        try:
            with pytest.raises(TimeoutError):
                calls.call("GET", "/first")
            assert calls.call("GET", "/second") == {"of": "/second"}
        finally:
            answers.set()
            calls.close()
            server.shutdown()


def test_the_remedy_fits_the_service(tmp_path: Path) -> None:
    error = ConnectionFailed("refused")
    assert "--server" in sentence(error, "http://x", None)
    assert "has stopped; start it with `foldex up`" in sentence(error, "http://x", tmp_path)
    lock = lock_file(tmp_path)
    lock.parent.mkdir()
    with lock.open("w") as held:
        assert try_lock(held.fileno())
        held.write("1")
        held.flush()
        told = sentence(error, "http://x", tmp_path)
    assert "runs, but its API does not answer" in told
    assert str(tmp_path / "log") in told


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (TimedOut("silent"), "see its logs"),
        (UnexpectedAnswer("a page"), "is not Foldex"),
        (Unauthorized("unknown key"), "--key"),
        (NotFound("There is no such tool; list them."), "There is no such tool; list them."),
    ],
)
def test_the_remedy_fits_the_error(error: FoldexError, remedy: str) -> None:
    assert remedy in sentence(error, "http://x", None)


@pytest.mark.parametrize(("key", "said"), [(None, "needs a key"), ("fx_old", "refuses the key")])
def test_who_gave_no_key_is_told_that_one_is_needed(key: str | None, said: str) -> None:
    service = Connection("http://x", None, Invocation(server=None, key=key, project=None, as_json=False))
    with pytest.raises(VerbFailed, match=said), service.errors_in_words():
        raise Unauthorized("missing")


#: As Foldex answers a request for a field that it does not know.
UNKNOWN = "Extra inputs are not permitted. See /docs for what this call accepts."


def test_a_service_that_is_older_than_the_command_is_to_be_updated(tmp_path: Path) -> None:
    error = Invalid(f"reuse: {UNKNOWN}")
    assert "older than this command (reuse is new to it); update it" in sentence(error, "http://x", None)
    assert "`foldex down`" in sentence(error, "http://x", tmp_path)


def test_a_mistyped_setting_is_no_older_service() -> None:
    told = f"config.wach: {UNKNOWN}"
    assert sentence(Invalid(told), "http://x", None) == told


@pytest.mark.parametrize(
    ("principals", "sent"),
    [(None, [None]), ((), [""]), (("user:ann", "group:a,b%"), ["user:ann,group:a%2Cb%25"])],
)
def test_each_call_names_for_whom_it_is(principals: tuple[str, ...] | None, sent: list[str | None]) -> None:
    seen: list[str | None] = []

    class Noting(_Empty):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Foldex-Principals"))
            super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Noting) as server:
        Thread(target=server.serve_forever, args=[0.01]).start()
        invocation = Invocation(server=None, key=None, project=None, principals=principals)
        service = Connection(f"http://127.0.0.1:{server.server_port}", None, invocation)
        try:
            assert list(service.foldex.tools.list()) == []
            assert seen == sent
            # what cannot name them makes no call
            assert (service.call_locally("GET", "/api/tools/search") is None) is (principals is not None)
            assert len(seen) == (2 if principals is None else 1)
        finally:
            service.close()
            server.shutdown()
