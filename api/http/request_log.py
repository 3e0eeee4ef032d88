"""Logs every request in one line. Its id is also in its answer, its other log lines and its tasks.

Plain ASGI, around all other middleware. The line is written once the last byte is handed over, so it delays no
answer. It holds no address, no key and no body, which may be secret.
"""

from __future__ import annotations

import re
import time
from contextvars import ContextVar
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.disconnect import CALLER_LEFT

#: Answered to every request, and accepted from callers.
HEADER = "X-Request-Id"
_RAW_HEADER = HEADER.lower().encode()
#: Ids that are accepted from callers: at most 128 characters that no log or header has to escape.
_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
#: Probes, which come every few seconds. They are logged at debug level only.
_PROBES = {"/healthz", "/readyz", "/metrics"}
#: Maximum characters of a project in the log: without keys, callers name any.
_MAX_PROJECT = 100

log = structlog.get_logger()


class _LogFacts:
    """Facts about the current request. Threads that work for it share them."""

    __slots__ = ("project",)

    def __init__(self) -> None:
        self.project: str | None = None


_line: ContextVar[_LogFacts] = ContextVar("request_line")


def note_project(project_id: str) -> None:
    """Note the project of the request at hand; the first one counts, because a key's project is known first."""
    line = _line.get(None)
    if line is not None and line.project is None:
        line.project = project_id[:_MAX_PROJECT]


def noted_project() -> str | None:
    """The project of the request at hand, as far as it is known."""
    line = _line.get(None)
    return None if line is None else line.project


def headers() -> dict[str, str]:
    """The header of the request at hand, for answers that are made outside of `RequestLog`."""
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    return {HEADER: request_id} if request_id else {}


def log_unread(status: int) -> dict[str, str]:
    """Log bytes that could not be read as a request, and return the header of their answer."""
    request_id = uuid4().hex
    log.info("request", method="unknown", route="unknown", status=status, request_id=request_id)
    return {HEADER: request_id}


class RequestLog:
    """See the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _LoggedRequest(scope, receive, send)
        # each request runs in a task of its own, whose context ends with it
        structlog.contextvars.bind_contextvars(request_id=request.id)
        _line.set(request.line)
        try:
            await self._app(scope, request.receive, request.send)
        finally:
            # a stream that its caller left, or an exception that an outer handler turns into a 500
            request.end(complete=False)


class _LoggedRequest:
    """One request, from its headers to the end of its answer."""

    __slots__ = ("_ended", "_left", "_receive", "_scope", "_send", "_started", "_status", "id", "line")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._started = time.perf_counter()
        self._status = 0
        self._left = self._ended = False
        self.id = _request_id(scope)
        self.line = _LogFacts()

    async def receive(self) -> Message:
        """See ASGI."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._left = True
        return message

    async def send(self, message: Message) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), (_RAW_HEADER, self.id.encode())]
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end(complete=True)

    def end(self, *, complete: bool) -> None:
        """Write the line, unless it is written."""
        if self._ended:
            return
        self._ended = True
        # do not log a caller that leaves after the end
        left = self._left and not complete
        route = getattr(self._scope.get("route"), "path", "unknown")
        said: dict[str, object] = {
            "method": self._scope["method"],
            "route": route,
            "status": self._status or (CALLER_LEFT if left else 500),
            "ms": round(1000 * (time.perf_counter() - self._started), 1),
        }
        if self.line.project is not None:
            said["project"] = self.line.project
        if left:
            said["left"] = True
        (log.debug if route in _PROBES else log.info)("request", **said)


def _request_id(scope: Scope) -> str:
    """The caller's id if it is acceptable, else a new one."""
    for name, value in scope["headers"]:
        if name == _RAW_HEADER and _SANE.fullmatch(value):
            return str(value, "ascii")
    return uuid4().hex
