"""The steps of a search reach the caller while it runs, and its end always does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from threading import Event
from typing import Any, cast

import pytest
from fastapi import Request

from api.http import event_stream
from api.http.disconnect import CallerLeft, Disconnect
from schemas.errors import StoreUnavailable
from schemas.queries.search import Step
from tests import coroutines

SECONDS = 20
FIRST = Step(step="embed", took_ms=1, found=1)


def request(accept: str | None = None) -> Request:
    headers = [] if accept is None else [(b"accept", accept.encode())]
    return Request({"type": "http", "path": "/", "headers": headers})


def streamed(work: event_stream.Work, disconnect: Disconnect) -> AsyncGenerator[str, None]:
    return cast("AsyncGenerator[str, None]", event_stream.stream(request(), work, disconnect).body_iterator)


def parsed(event: str) -> tuple[str, Any]:
    name, data, *rest = event.split("\n")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_step_arrives_while_the_search_runs() -> None:
    go_on = Event()

    def work(on_step: Callable[[Step], None]) -> str:
        on_step(FIRST)
        assert go_on.wait(SECONDS)
        return '{"results": []}'

    async def read() -> list[tuple[str, Any]]:
        events = streamed(work, Disconnect())
        seen = [parsed(await anext(events))]
        go_on.set()
        return seen + [parsed(event) async for event in events]

    assert coroutines.run(read()) == [("step", FIRST.model_dump()), ("answer", {"results": []})]


@pytest.mark.parametrize(
    ("error", "status", "code"), [(StoreUnavailable("Away."), 503, "store_unavailable"), (KeyError(), 500, "internal")]
)
def test_an_error_ends_the_stream_with_its_problem(error: Exception, status: int, code: str) -> None:
    def work(_: Callable[[Step], None]) -> str:
        raise error

    async def read() -> list[tuple[str, Any]]:
        return [parsed(event) async for event in streamed(work, Disconnect())]

    ((name, problem),) = coroutines.run(read())
    assert (name, problem["status"], problem["code"]) == ("error", status, code)


def test_a_quiet_search_sends_comments_and_ends_when_its_caller_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "QUIET_SECONDS", 0.01)
    disconnect, begun, ended = Disconnect(), Event(), Event()

    def work(_: Callable[[Step], None]) -> str:
        begun.set()
        try:
            disconnect.wait(SECONDS)
        except CallerLeft:
            ended.set()
            raise
        return "{}"

    async def read() -> str:
        events = streamed(work, disconnect)
        comment = await anext(events)
        while not begun.is_set():
            await anext(events)
        await events.aclose()
        return comment

    assert coroutines.run(read()).startswith(":")
    assert ended.wait(SECONDS)


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        *((None, False), ("*/*", False), ("application/json", False), ("text/event-stream, application/json", False)),
        *(("text/event-stream", True), ("Text/Event-Stream;q=0.9, */*;q=0.1", True)),
    ],
)
def test_only_a_caller_that_wants_events_gets_them(accept: str | None, streams: bool) -> None:
    assert event_stream.wants_events(request(accept)) is streams
