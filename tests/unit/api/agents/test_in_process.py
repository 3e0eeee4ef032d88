"""Calls of the application within its own process."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from api.agents.in_process import InProcess
from tests import coroutines


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    headers = [(b"x-path", scope["raw_path"]), (b"x-query", scope["query_string"]), *scope["headers"]]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": message["body"][:2], "more_body": True})
    await send({"type": "http.response.body", "body": message["body"][2:]})


def test_a_request_arrives_whole_and_so_does_its_answer() -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=InProcess(echo, {"X-Request-Id": "one"})) as client:
            return await client.post("http://127.0.0.1/a%2Fb", params={"q": "ä"}, json={"x": 1})

    answer = coroutines.run(ask())
    assert (answer.status_code, answer.json()) == (201, {"x": 1})
    assert (answer.headers["x-path"], answer.headers["x-query"]) == ("/a%2Fb", "q=%C3%A4")
    assert answer.headers["x-request-id"] == "one"


def test_the_application_learns_that_its_caller_was_cancelled() -> None:
    async def ask() -> bool:
        begun, left = asyncio.Event(), asyncio.Event()

        async def slow(_: Scope, receive: Receive, __: Send) -> None:
            await receive()
            begun.set()
            assert (await receive())["type"] == "http.disconnect"
            left.set()

        async with httpx.AsyncClient(transport=InProcess(slow, {})) as client:
            call = asyncio.create_task(client.get("http://127.0.0.1/"))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(left.wait(), 20)
        return left.is_set()

    assert coroutines.run(ask())


def test_an_answer_that_is_followed_by_an_error_stays_the_answer() -> None:
    async def failing(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"sorry"})
        raise RuntimeError

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=InProcess(failing, {})) as client:
            return await client.get("http://127.0.0.1/")

    assert coroutines.run(ask()).text == "sorry"
