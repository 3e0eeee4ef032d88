"""Callers who leave before their answer is there: the work for them ends at its next step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from threading import Event
from typing import Annotated

from fastapi import Depends, Request


class CallerLeft(Exception):
    """Nobody waits for the answer any more. Not a `FoldexError`, which a search may take for a part that failed."""


class Left:
    """Whether the caller has left; `event` is set once that is so."""

    def __init__(self) -> None:
        self.event = Event()

    def check(self) -> None:
        """Raise `CallerLeft` once nobody waits."""
        if self.event.is_set():
            raise CallerLeft

    def wait(self, seconds: float) -> None:
        """Sleep, but not for somebody who has left: raises `CallerLeft`."""
        self.event.wait(seconds)
        self.check()


async def _left(request: Request) -> AsyncIterator[Left]:
    left = Left()
    watch = asyncio.create_task(_watch(request, left))
    try:
        yield left
    finally:
        watch.cancel()


async def _watch(request: Request, left: Left) -> None:
    # a dependency is asked for after the body was read: nothing comes any more but the end of the connection
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.event.set()


#: For routes that read no body by themselves.
LeftDep = Annotated[Left, Depends(_left)]
