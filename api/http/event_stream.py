"""Streams the steps of a search as server-sent events while it runs, then its answer or its error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from api.http.described_errors import OpenApi
from api.http.disconnect import Disconnect
from api.http.problems import problem_json
from schemas.queries.search import Step

EVENTS = "text/event-stream"
#: Seconds without an event after which a comment keeps proxies from closing the connection.
QUIET_SECONDS = 10.0

#: For `responses` of a route: the stream that it may answer.
RESPONSES: dict[int | str, OpenApi] = {
    200: {
        "content": {
            EVENTS: {
                "schema": {
                    "type": "string",
                    "description": "With this `Accept`: a `step` after each step, then `answer`, or "
                    "`error` with a problem.",
                    "examples": ['event: step\ndata: {"step": "embed", "took_ms": 8.1, "found": 1}\n\n'],
                }
            }
        }
    }
}

#: Runs a search, which calls its argument after each step. Returns the answer as JSON.
Work = Callable[[Callable[[Step], None]], str]


def wants_events(request: Request) -> bool:
    """Whether the caller accepts a stream of events, and no answer in one piece."""
    accepted = request.headers.get("accept", "").lower()
    return EVENTS in accepted and "application/json" not in accepted


def stream(request: Request, work: Work, disconnect: Disconnect) -> StreamingResponse:
    """Answer with the events of `work`. If the caller leaves, it ends at its next step."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, work, disconnect), media_type=EVENTS, headers=headers)


async def _events(request: Request, work: Work, disconnect: Disconnect) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def tell(name: str, data: str) -> None:
        loop.call_soon_threadsafe(events.put_nowait, (name, data))

    def run() -> None:
        try:
            answer = work(lambda step: tell("step", step.model_dump_json()))
        except Exception as error:  # noqa: BLE001 # whatever it is, the caller waits for an end
            tell("error", problem_json(request, error))
        else:
            tell("answer", answer)

    running = asyncio.create_task(run_in_threadpool(run))
    name = ""
    try:
        while name not in {"answer", "error"}:
            try:
                name, data = await asyncio.wait_for(events.get(), QUIET_SECONDS)
            except TimeoutError:
                yield ": still searching\n\n"
                continue
            yield f"event: {name}\ndata: {data}\n\n"
        await running
    finally:
        disconnect.event.set()
