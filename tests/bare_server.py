"""Serves an application by the API's own protocol, for tests that speak to it over bare connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn

from api.http.protocol import TimedProtocol
from tests.service import eventually

Place = tuple[str, int]


@contextmanager
def serving(app: Any) -> Iterator[Place]:
    """Serve an ASGI application in a thread. Yields its host and port."""
    config = uvicorn.Config(app, port=0, http=TimedProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, 20)
        yield server.servers[0].sockets[0].getsockname()
    finally:
        server.should_exit = True
        thread.join(20)
