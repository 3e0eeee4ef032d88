"""The server of the API: uvicorn, which wakes once a second while nothing happens, not ten times."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from types import FrameType

import uvicorn

#: Seconds between two rounds of upkeep. The `Date` of answers is at most as old.
TICK_SECONDS = 1.0
#: A count of rounds at which uvicorn renews the date: it does so in every tenth.
_RENEWING = 0
#: Exit status of uvicorn, as a program, if it did not start.
_NOT_STARTED = 3


class Server(uvicorn.Server):
    """A server that a signal wakes."""

    _signalled: asyncio.Event | None = None

    async def main_loop(self) -> None:
        """See uvicorn. Ends once a signal asks for it."""
        self._loop, self._signalled = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(_RENEWING):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), TICK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        super().handle_exit(sig, frame)
        if self._signalled is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)


def serve_until_signalled(config: uvicorn.Config) -> None:
    """Serve until a signal arrives. Exits with uvicorn's own status if the server does not start."""
    server = Server(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(_NOT_STARTED)
