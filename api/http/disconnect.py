"""Detects callers that disconnect early, so that work for them stops at its next step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import Receive

#: nginx's status for a client that disconnected; HTTP defines none.
CALLER_LEFT = 499


class CallerLeft(Exception):
    """The caller has disconnected. Not a `FoldexError`: a search may treat that as one failed part."""


class Disconnect:
    """Whether the caller has disconnected; `event` is set once it has."""

    def __init__(self) -> None:
        self.event = Event()

    def check(self) -> None:
        """Raise `CallerLeft` if the caller has disconnected."""
        if self.event.is_set():
            raise CallerLeft

    def wait(self, seconds: float) -> None:
        """Sleep, or raise `CallerLeft` as soon as the caller disconnects."""
        self.event.wait(seconds)
        self.check()


@asynccontextmanager
async def watch_request(receive: Receive) -> AsyncIterator[Disconnect]:
    """Watch a request whose body was read."""
    disconnect = Disconnect()
    watch = asyncio.create_task(_watch(receive, disconnect))
    try:
        yield disconnect
    finally:
        watch.cancel()


async def _watch(receive: Receive, disconnect: Disconnect) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect.event.set()


async def _disconnect(request: Request) -> AsyncIterator[Disconnect]:
    # FastAPI has read the body before it resolves dependencies: only the disconnect can follow
    async with watch_request(request.receive) as disconnect:
        yield disconnect


#: For routes that do not read the request body themselves.
DisconnectDep = Annotated[Disconnect, Depends(_disconnect)]
