"""Checks every request before it is parsed: API key, origin and body size.

Plain ASGI, because FastAPI parses the body before it checks the key. JSON bodies are read here in full, limited in
bytes and time. Uploads are streamed and have their own limits.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, ClassVar
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from psycopg import OperationalError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.http import problems
from api.http.lookup_cache import Kept, Key, Known, Value
from schemas.errors import BodyTooSlow, CrossSite, FoldexError, NotLoopback, TooLarge, Unauthorized
from worker.machine.privacy import names_loopback
from worker.settings import Settings
from worker.state.access import keys

#: Seconds within which a request's headers must arrive, and its body unless it is an upload.
HEADER_SECONDS, BODY_SECONDS = 20.0, 60.0
#: Within these seconds, a slow client must read these bytes of its answer, or the rest of it.
STALLED_SECONDS, STALLED_BYTES = 20.0, 1 << 16
#: Maximum bytes of answers that a process buffers for slow clients. The one that is slow for longest is dropped.
MOST_UNSENT = 256 << 20

_SAFE = {"GET", "HEAD", "OPTIONS"}
_UPLOADS = re.compile(r"/api/projects/[^/]+/uploads")


class Gate:
    """Authorizes requests below `/api`, and limits the body size of all requests."""

    def __init__(self, app: ASGIApp, settings: Settings, known: Known) -> None:
        self._app = app
        self._is_open = settings.auth == "off"
        self._max_bytes = settings.max_body_bytes
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            await self._admit(request)
            if request.method not in _SAFE and not _UPLOADS.fullmatch(request.url.path):
                receive = await self._read(request, receive)
        except (FoldexError, OperationalError) as error:
            answer = problems.answered(request, error)
            if not isinstance(error, Unauthorized | CrossSite):
                # the rest of the body must not be parsed as the next request
                answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> None:
        """Raise `NotLoopback`, `CrossSite` or `Unauthorized` unless the request is allowed."""
        if not request.url.path.startswith("/api/"):
            return
        if self._is_open:
            check_loopback(request)
            _check_same_site(request)
            return
        key = sent_key(request)
        if not key or await looked_up(self._known.projects, keys.hashed(key)) is None:
            raise unauthorized()

    async def _read(self, request: Request, receive: Receive) -> Receive:
        """A `receive` that returns the whole body at once. Raises `TooLarge` and `BodyTooSlow`."""
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_large()
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return _replayed(message, receive)
                    body += message.get("body", b"")
                    if len(body) > self._max_bytes:
                        raise self._too_large()
                    more = message.get("more_body", False)
        except TimeoutError as error:
            raise BodyTooSlow(f"The body did not come in within {BODY_SECONDS:g} s; send it again.") from error
        return _replayed({"type": "http.request", "body": bytes(body), "more_body": False}, receive)

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"The body has more than MAX_BODY_BYTES ({self._max_bytes:,}) bytes; send less, or upload it as a file."
        )


def _replayed(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def sent_key(request: Request) -> str:
    """The bearer key of a request; "" if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def unauthorized() -> Unauthorized:
    """The error for a missing, unknown or revoked key."""
    return Unauthorized("Send `Authorization: Bearer <key>` with a key that `foldex keys create` made.")


async def looked_up(values: Kept[Key, Value], key: Key) -> Value | None:
    """The cached value, or a lookup in a thread. Thread switches are expensive in a busy process."""
    kept = values.kept(key)
    return await run_in_threadpool(values.get, key) if kept is None else kept


def check_loopback(request: Request) -> None:
    """Raise `NotLoopback` unless the request comes from this machine and uses a loopback host name.

    A browser here may run a page from anywhere. Such a page is recognized by its own site's name in the request.
    """
    client = request.client.host if request.client else None
    if not all(host is not None and names_loopback(host) for host in (request.url.hostname, client)):
        raise NotLoopback("AUTH=off answers this machine only; set AUTH=on and make a key with `foldex keys create`.")


def _check_same_site(request: Request) -> None:
    """Raise `CrossSite` for a request that changes data and comes from a page of another site.

    Browsers send forms and uploads to any address without asking. They always name the origin; other programs do not.
    """
    if request.method in _SAFE:
        return
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        raise CrossSite(
            "A page of another site sent this request; call from a program, or from a page of this address."
        )


class TimedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with timeouts for clients that never complete headers or never read answers.

    Uvicorn itself waits forever and keeps the unsent bytes in memory.
    """

    #: Connections of slow clients, slow for longest first, and their unsent bytes at the last check.
    _behind: ClassVar[dict[TimedProtocol, int]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._stop_waiting()
        self._caught_up()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._behind[self] = self.transport.get_write_buffer_size()
        self._look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)
        # aborting a transport may pause another one, so iterate over a copy
        for protocol in list(self._behind):
            if sum(other.transport.get_write_buffer_size() for other in self._behind) <= MOST_UNSENT:
                break
            protocol.drop()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._caught_up()
        super().resume_writing()

    def drop(self) -> None:
        """Close the connection without sending the rest."""
        self._caught_up()
        self.transport.abort()

    def _look_at_reader(self) -> None:
        before, left = self._behind[self], self.transport.get_write_buffer_size()
        if before - left < STALLED_BYTES:
            self.drop()
            return
        self._behind[self] = left
        self._look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)

    def _caught_up(self) -> None:
        self._behind.pop(self, None)
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def on_message_begin(self) -> None:
        """See httptools."""
        super().on_message_begin()
        if self._deadline is None:
            self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()
