"""Calls the application that this process serves without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import httpx
from starlette.types import ASGIApp, Message, Scope

#: The caller that the application sees.
_CLIENT = ("127.0.0.1", 0)
#: Calls whose caller has left, until they end.
_left_behind: set[asyncio.Task[None]] = set()


class InProcess(httpx.AsyncBaseTransport):
    """A transport of httpx. Unlike its own one, it tells the application when the caller is cancelled."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app, self._headers = app, headers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        request.headers.update(self._headers)
        exchange = _Exchange(await request.aread())
        task = asyncio.create_task(exchange.run(self._app, _scope(request)))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            exchange.left.set()
            _left_behind.add(task)
            task.add_done_callback(_forget)
            raise
        return httpx.Response(exchange.status, headers=list(exchange.headers), content=bytes(exchange.body))


def _forget(task: asyncio.Task[None]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()


class _Exchange:
    """One request and its answer."""

    def __init__(self, sent: bytes) -> None:
        self._sent: bytes | None = sent
        self.left = asyncio.Event()
        self.status = 0
        self.headers: Iterable[tuple[bytes, bytes]] = ()
        self.body = bytearray()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Call the application. Its outermost layer raises again what it has answered as a 500."""
        try:
            await app(scope, self._receive, self._send)
        except Exception:  # the application may raise anything, and its answer says what the caller may know
            if not self.status:
                raise

    async def _receive(self) -> Message:
        if self._sent is not None:
            body, self._sent = self._sent, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


def _scope(request: httpx.Request) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": _CLIENT,
        "server": (request.url.host, request.url.port or 80),
    }
