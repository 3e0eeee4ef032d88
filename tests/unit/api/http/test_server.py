"""When the server wakes while nothing happens, and how its processes share connections."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
import uvicorn

from api.http import server
from api.http.server import SignalledServer
from api.stack.processes import server_port
from tests import coroutines
from tests.service import eventually


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError


def new_server() -> SignalledServer:
    config = uvicorn.Config(nothing, port=0, lifespan="off", log_config=None)
    config.load()
    return SignalledServer(config)


async def ended(loop: asyncio.Task[None]) -> None:
    async with asyncio.timeout(20):
        await loop


def test_a_signal_ends_the_server_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TICK_SECONDS", 3600)

    async def run() -> None:
        started = new_server()
        loop = asyncio.create_task(started.main_loop())
        await asyncio.sleep(0.01)
        assert not loop.done()
        started.handle_exit(signal.SIGTERM, None)
        await ended(loop)

    coroutines.run(run())


def test_a_signal_before_the_loop_ends_it_too() -> None:
    async def run() -> None:
        started = new_server()
        started.handle_exit(signal.SIGTERM, None)
        await ended(asyncio.create_task(started.main_loop()))

    coroutines.run(run())


def test_the_date_is_renewed_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TICK_SECONDS", 0.001)

    async def run() -> None:
        started, renewals = new_server(), asyncio.Semaphore(0)

        async def renewed() -> None:
            renewals.release()

        # uvicorn calls it when it renews the date
        started.config.callback_notify, started.config.timeout_notify = renewed, -1
        loop = asyncio.create_task(started.main_loop())
        async with asyncio.timeout(20):
            for _ in range(3):
                await renewals.acquire()
        assert b"date" in dict(started.server_state.default_headers)
        started.handle_exit(signal.SIGINT, None)
        await ended(loop)

    coroutines.run(run())


def test_clients_and_proxies_close_idle_connections_before_the_server_does() -> None:
    usual_proxy = 60.0
    kept = server.Serving(lambda: nothing, "127.0.0.1", 0).config(nothing).timeout_keep_alive
    assert kept > max(usual_proxy, httpx.Limits().keepalive_expiry or 0.0)


def test_a_server_that_does_not_start_exits_as_uvicorn_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SignalledServer, "run", lambda *_: None)
    with pytest.raises(SystemExit) as ended_with:
        server._serve(server.Serving(lambda: nothing, "127.0.0.1", 0))
    assert ended_with.value.code == 3


def test_an_adopted_process_that_ends_is_none_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    adopted, own = 99_999, 99_998
    ends = iter([(adopted, 0), (own, 3 << 8)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(signal, "setitimer", lambda *_: None)
    monkeypatch.setattr(os, "wait", lambda: next(ends))
    family = server._Family(server.Serving(lambda: nothing, "127.0.0.1", 0), 1)
    monkeypatch.setattr(family, "_begin", lambda: family._children.update({own: 0}))
    with family._listening:
        # a program that a process starts would keep the port
        assert not family._listening.get_inheritable()
        with pytest.raises(SystemExit) as ended_with:
            family.keep()
    assert ended_with.value.code == 3


def test_processes_that_do_not_start_end_their_parent() -> None:
    program = """
from api.http.server import Serving, serve
serve(Serving(lambda: [][0], "127.0.0.1", 0), 2)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    assert "IndexError" in ended.stdout + ended.stderr


def test_processes_that_do_not_end_when_told_are_killed() -> None:
    program = """
import os, signal, sys, time
from api.http import server

def make_app():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"stuck\\n")
    time.sleep(30)
    sys.exit()

server.ENDING_SECONDS = 0.1
server.serve(server.Serving(make_app, "127.0.0.1", 0), 2)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert [parent.stdout.readline() for _ in range(2)] == ["stuck\n"] * 2
        parent.terminate()
        # the output ends with the last process that has it
        parent.communicate(timeout=20)
    assert parent.returncode == 0


def test_processes_share_connections_evenly_and_take_those_of_one_that_hangs() -> None:
    program = """
import os, sys
from api.http import server

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for each in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{each}.complete"})
        return
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})

# on a busy machine a process may not run for long
server.MAX_LEFT = 100
server.serve(server.Serving(lambda: app, "127.0.0.1", int(sys.argv[1])), 2)
"""
    few: Counter[bytes] = Counter()

    def both_have_few() -> bool:
        few.clear()
        few.update(processes_of(port, 4))
        return len(few) > 1

    with subprocess.Popen([sys.executable, "-c", program, str(port := server_port())]) as parent:
        try:
            eventually(lambda: len(processes_of(port, 8)) > 1, 60)
            shares = [processes_of(port, 32, at_once=number) for number in (32, 1, 32, 1)]
            # the other one will have more
            eventually(both_have_few, 20)
            hanging, other = few
            os.kill(int(hanging), signal.SIGSTOP)
            of_other = processes_of(port, 16)
            os.kill(int(hanging), signal.SIGCONT)
        finally:
            parent.terminate()
    assert parent.returncode == 0
    assert of_other == {other: 16}
    assert min(min(share.values()) for share in shares) >= 12, shares


def processes_of(port: int, connections: int, *, at_once: int | None = None) -> Counter[bytes]:
    """The processes that accept connections which are kept, by what they answer. All are opened at once, or some."""
    held = [HTTPConnection("127.0.0.1", port, timeout=20) for _ in range(connections)]

    def asked(connection: HTTPConnection) -> bytes:
        connection.request("GET", "/")
        return connection.getresponse().read()

    with ThreadPoolExecutor(at_once or connections) as threads, suppress(ConnectionError, TimeoutError):
        found = Counter(threads.map(asked, held))
        for each in held:
            each.close()
        return found
    return Counter()
