"""A project whose calls hold all that it may delays nobody else, and its further calls are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from threading import Event
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import ASGIApp

from api.http import fair_calls, shares
from api.http.fair_calls import FairCalls, reserve_threads, share_of
from api.http.request_log import RequestLog, note_project
from tests import coroutines

#: A call of a project that holds its thread until it may go, and one that does not.
SLOW, QUICK = "/api/projects/{}/slow", "/api/projects/{}/quick"


def application(go: Event) -> FastAPI:
    app = FastAPI()

    @app.get(SLOW.format("{project}"))
    def slow(project: str) -> str:
        assert go.wait(30)
        return project

    @app.get(QUICK.format("{project}"))
    @app.get("/readyz")
    @app.get("/healthz")
    def quick() -> str:
        return "quick"

    @app.post("/api/tools/search")
    @app.post("/api/tools/search/{tool_id}/query")
    async def body(request: Request, tool_id: str = "") -> str:
        if tool_id:
            note_project("of the tool")
        return (await request.body()).decode()

    return app


def asked(app: ASGIApp, run: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run with a client of the application."""

    async def with_client() -> None:
        reserve_threads()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            await asyncio.wait_for(run(client), 60)

    coroutines.run(with_client())


def test_a_project_that_fills_its_share_delays_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    # projects of other tests do not count as others
    monkeypatch.setattr("worker.machine.sharing.slots.RECENT_SECONDS", 0.0)
    go = Event()
    most = shares.READS.each + shares.READS.queue

    async def run(client: httpx.AsyncClient) -> None:
        slow = [asyncio.create_task(client.get(SLOW.format("a"))) for _ in range(most)]
        while len(shares.READS.slots._waiting.get("a", ())) < shares.READS.queue:  # noqa: ASYNC110 # slots tell nobody
            await asyncio.sleep(0.01)
        refused = await client.get(QUICK.format("a"))
        assert (refused.status_code, refused.json()["code"]) == (429, "project_busy")
        assert int(refused.headers["retry-after"]) > 0
        for path in (QUICK.format("b"), "/readyz", "/healthz"):
            assert (await client.get(path)).status_code == 200
        go.set()
        assert {answer.status_code for answer in await asyncio.gather(*slow)} == {200}
        assert (await client.get(QUICK.format("a"))).status_code == 200

    try:
        asked(RequestLog(FairCalls(application(go))), run)
    finally:
        go.set()


def test_all_projects_together_leave_room_for_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    go = Event()
    reads = replace(shares.READS, seconds=0.2)
    monkeypatch.setattr(fair_calls, "share_of", lambda _, path: reads if "slow" in path else share_of("GET", path))

    async def run(client: httpx.AsyncClient) -> None:
        owners = [str(number % reads.total) for number in range(2 * reads.total)]
        slow = [asyncio.create_task(client.get(SLOW.format(owner))) for owner in owners]
        while reads.slots._free:  # noqa: ASYNC110 # slots tell nobody
            await asyncio.sleep(0.01)
        refused = await client.get(SLOW.format("another"))
        assert (refused.status_code, refused.json()["code"]) == (503, "server_busy")
        assert (await client.get("/readyz")).status_code == 200
        go.set()
        statuses = [answer.status_code for answer in await asyncio.gather(*slow)]
        assert (statuses.count(200), statuses.count(503)) == (reads.total, len(owners) - reads.total)

    try:
        asked(RequestLog(FairCalls(application(go))), run)
    finally:
        go.set()


def test_the_project_is_that_of_the_body_or_the_tool_where_no_key_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, tool = list[str](), str(uuid4())
    held = shares.Share.hold_by_call

    def noted(share: shares.Share, owner: str) -> AbstractAsyncContextManager[None]:
        owners.append(owner)
        return held(share, owner)

    monkeypatch.setattr(shares.Share, "hold_by_call", noted)

    async def run(client: httpx.AsyncClient) -> None:
        for content in (b'{"project_id": "a"}', b'{"project_id":\n "b", "x": 1}', b'{"project_id": "\\u0061"}', b"{"):
            answer = await client.post("/api/tools/search", content=content)
            assert answer.json() == content.decode()
        for _ in range(2):
            await client.post(f"/api/tools/search/{tool}/query", content=b"{}")

    asked(RequestLog(FairCalls(application(Event()))), run)
    assert owners == ["a", "b", "", "", "", "of the tool"]


@pytest.mark.parametrize(
    ("method", "path", "share"),
    [
        ("POST", "/api/tools/search/7b0c/query", shares.SEARCHES),
        ("POST", "/api/tools/search/7b0c/grep", shares.GREPS),
        ("POST", "/api/search", shares.ACROSS),
        ("POST", "/api/projects/p/uploads", shares.UPLOADS),
        ("POST", "/api/projects/p\n/uploads", shares.UPLOADS),
        ("GET", "/api/projects/p/nodes/n/content", shares.DOWNLOADS),
        ("GET", "/api/tools/search/7b0c/events", shares.STREAMS),
        ("GET", "/api/tools/search/7b0c/status", shares.READS),
        ("GET", "/api/projects/p/uploads", shares.READS),
        ("POST", "/api/tools/search", shares.WRITES),
        ("DELETE", "/api/projects/p", shares.WRITES),
        ("PROPFIND", "/api/projects/p", shares.WRITES),
        ("POST", "/mcp", shares.AGENTS),
        ("GET", "/readyz", shares.PROBES),
        ("POST", "/", shares.PROBES),
    ],
)
def test_each_call_is_of_a_kind(method: str, path: str, share: shares.Share) -> None:
    assert share_of(method, path) is share
