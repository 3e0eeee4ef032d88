"""Requests over connections that stay open, by `http.client`: httpx takes four times as much processor time."""

from __future__ import annotations

import select
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import NamedTuple

#: Seconds for which an idle connection is used again. Many servers close it after a minute.
IDLE_SECONDS = 5.0
#: Idle connections that are kept to one address.
MAX_IDLE = 20


class Origin(NamedTuple):
    """The server of an address. `port` is None if it is that of the scheme."""

    is_secure: bool
    host: str
    port: int | None


class HttpAnswer(NamedTuple):
    """The answer to a request. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class NotConnected(OSError):
    """No server took the request."""


class KeptOpen:
    """The connections of one process. Thread-safe."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._lock = Lock()
        self._idle: defaultdict[Origin, deque[tuple[HTTPConnection, float]]] = defaultdict(deque)

    def post(self, origin: Origin, path: str, headers: Mapping[str, str], body: bytes, seconds: float) -> HttpAnswer:
        """Send a request, and read its answer. Waits `seconds` for each part of it.

        Raises `NotConnected`, `TimeoutError`, other kinds of `OSError`, and `HTTPException`.
        """
        connection = self._taken(origin) or self._new(origin)
        try:
            connection.timeout = seconds
            if connection.sock is None:
                _connect(connection)
            else:
                connection.sock.settimeout(seconds)
            _send(connection, path, headers, body)
            response = connection.getresponse()
            answer = HttpAnswer(response.status, _headers(response), response.read())
        except BaseException:  # whatever broke off the request, its answer must not be taken for that to another
            connection.close()
            raise
        # it closes itself if the server wants that
        if connection.sock is not None:
            self._keep(origin, connection)
        return answer

    def _new(self, origin: Origin) -> HTTPConnection:
        if origin.is_secure:
            return HTTPSConnection(origin.host, origin.port, context=self._context)
        return HTTPConnection(origin.host, origin.port)

    def _taken(self, origin: Origin) -> HTTPConnection | None:
        """The idle connection that was used last, if its server has not closed it."""
        with self._lock:
            idle = self._idle[origin]
            connection, since = idle.pop() if idle else (None, 0.0)
        if connection is None:
            return None
        if time.monotonic() - since < IDLE_SECONDS and not _is_readable(connection):
            return connection
        connection.close()
        return self._taken(origin)

    def _keep(self, origin: Origin, connection: HTTPConnection) -> None:
        with self._lock:
            idle, now = self._idle[origin], time.monotonic()
            idle.append((connection, now))
            surplus = []
            while len(idle) > MAX_IDLE or now - idle[0][1] > IDLE_SECONDS:
                surplus.append(idle.popleft()[0])
        for each in surplus:
            each.close()


def _headers(response: HTTPResponse) -> Mapping[str, str]:
    """The headers of an answer that failed; those of others are of no interest, and reading them takes time."""
    if response.status == HTTPStatus.OK:
        return {}
    return {name.lower(): value for name, value in response.getheaders()}


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except OSError as error:
        raise NotConnected(str(error) or repr(error)) from error


def _send(connection: HTTPConnection, path: str, headers: Mapping[str, str], body: bytes) -> None:
    try:
        connection.request("POST", path, body, headers)
    except ValueError as error:  # a header with a line break
        raise HTTPException(str(error)) from error


def _is_readable(connection: HTTPConnection) -> bool:
    """Whether a server that should be silent sent something: the end of the connection."""
    heard = select.poll()
    heard.register(connection.sock, select.POLLIN)
    return bool(heard.poll(0))
