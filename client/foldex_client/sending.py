"""Requests as values, and how they are sent: retries, deadlines, pages and events.

Everything is written once, as coroutines. `AsyncFoldex` awaits them. `Foldex` runs them over a link that blocks and
never suspends, so that one step takes a coroutine to its end.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from foldex_client.errors import (
    ConnectionFailed,
    DatabaseUnavailable,
    DiskFull,
    FoldexError,
    NotFound,
    UnexpectedAnswer,
    from_response,
    from_transport,
    unexpected,
)
from foldex_client.models import Page, Status
from foldex_client.version import __version__

T = TypeVar("T")

#: Seconds before the first retry. Each further pause is twice as long.
FIRST_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 8.0
#: Seconds for which a request may last even if less of its deadline is left.
MIN_TIMEOUT_SECONDS = 0.1
#: Failures of the connection before anything was sent.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: Errors of requests that may have been carried out. Postgres may have committed before it fell silent.
_PERHAPS_DONE = (ConnectionFailed, UnexpectedAnswer, DatabaseUnavailable)
#: What proxies answer while the service behind them restarts.
_GATEWAY = {502, 504}


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call: what is sent, and the type of the answer. None: nothing of it is needed; bytes: all as it is.

    A `repeatable` request has the same effect if it is carried out twice.
    """

    method: str
    path: str
    answer: type[T] | None
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    files: list[tuple[str, tuple[str, Any]]] | None = None
    repeatable: bool = True
    #: Called with each answer of a list.
    on_page: Callable[[T], None] | None = None


def path_of(*parts: str) -> str:
    """A path. Each part is one segment, whatever characters it has."""
    if not all(parts):
        raise ValueError("An id is empty; give the one that Foldex answered.")
    # an id of dots must not climb
    return "".join("/" + quote(part, safe="").replace(".", "%2E") for part in parts)


class BlockingLink:
    """Blocks the thread, so none of its coroutines ever suspends."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Begin to read the answer."""
        return self.client.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        """Read the answer to its end."""
        with closing(response):
            response.read()

    async def lines(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        """Read the answer line by line."""
        with closing(response):
            for line in response.iter_lines():
                yield line

    async def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)  # noqa: ASYNC251 # blocking is what this link is for


class AsyncLink:
    """The same, over asyncio."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Begin to read the answer."""
        return await self.client.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        """Read the answer to its end."""
        async with aclosing(response):
            await response.aread()

    async def lines(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        """Read the answer line by line."""
        async with aclosing(response):
            async for line in response.aiter_lines():
                yield line

    async def sleep(self, seconds: float) -> None:
        """Pause this task."""
        await asyncio.sleep(seconds)


Link = BlockingLink | AsyncLink


def origin(base_url: str) -> str:
    """The address without a trailing slash. Raises ValueError for anything but the address of a service."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not an address ({error}); give one such as http://127.0.0.1:8000.") from None
    if url.userinfo or url.query or url.fragment:
        raise ValueError("base_url holds more than an address; leave out `user@`, `?…` and `#…`, and give api_key.")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"base_url {base_url!r} is not an address; give one such as http://127.0.0.1:8000.")
    return str(url).rstrip("/")


def headers(api_key: str | None, principals: Collection[str] | None = None) -> dict[str, str]:
    """The headers of every request.

    Raises ValueError for a key that no header can hold, and TypeError for principals that are one text.
    """
    agent = {"User-Agent": f"foldex-client/{__version__}"}
    if isinstance(principals, str):
        # its letters would be sent
        raise TypeError("principals is one text; give a list, such as ['user:ann@example.org', 'group:hr'].")
    if principals is not None:
        # commas and percent signs are encoded, and what not every program sends unchanged
        agent["Foldex-Principals"] = ",".join(quote(each, safe=":@/") for each in principals)
    if api_key is None:
        return agent
    if not api_key.isascii() or not api_key.isprintable() or not api_key or " " in api_key:
        raise ValueError(
            "api_key is empty, or holds more than ASCII letters and signs, such as a space; give the key alone."
        )
    return {**agent, "Authorization": f"Bearer {api_key}"}


@dataclass(frozen=True)
class Session:
    """Sends requests to one service. `timeout` and `deadline` are in seconds."""

    link: Link
    base_url: str
    timeout: float
    retries: int
    deadline: float

    async def send(self, request: Request[T], within: float | None = None, *, again: bool = False) -> T:
        """The answer to a request, within `deadline` or fewer seconds. Raises `FoldexError`.

        `again`: the service has answered this before, so it may be silent for all of `deadline`, as in a restart.
        """
        response = await self._answer(request, within, again=again)
        return _parsed(request, response, response.content)

    async def pages(self, request: Request[Page[T]]) -> AsyncGenerator[T, None]:
        """Every item of a list; each page is fetched when it is needed."""
        while True:
            page = await self.send(request)
            if request.on_page is not None:
                request.on_page(page)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            request = replace(request, query={**request.query, "cursor": page.next_cursor})

    async def events(self, request: Request[Status]) -> AsyncGenerator[Status, None]:
        """Each change of a status until its task has ended. A stream that breaks off is opened again."""
        broken, again = 0, False
        while True:
            response = await self._answer(request, stream=True, again=again)
            try:
                async with aclosing(self.link.lines(response)) as lines:
                    async for line in lines:
                        if line.startswith("data:"):
                            broken, again = 0, True
                            status = _parsed(request, response, line.removeprefix("data:").encode())
                            yield status
                            if status.ended:
                                return
                raise httpx.RemoteProtocolError("the stream ended before the task")
            except httpx.RequestError as error:
                failed = from_transport(response.request, error)
                if broken >= self.retries:
                    raise failed from error
            await self.link.sleep(_pause(broken, failed))
            broken += 1

    async def _answer(
        self, request: Request[Any], within: float | None = None, *, stream: bool = False, again: bool = False
    ) -> httpx.Response:
        """A successful answer. What may be repeated is repeated."""
        ends = time.monotonic() + min(self.deadline, self.deadline if within is None else within)
        retries = math.inf if again and self.retries else self.retries
        was_lost = False
        for attempt in count():
            try:
                return await self._attempt(request, max(MIN_TIMEOUT_SECONDS, ends - time.monotonic()), stream=stream)
            except FoldexError as error:
                if was_lost and request.method == "DELETE" and isinstance(error, NotFound):
                    # an earlier attempt was carried out, and only its answer was lost
                    return httpx.Response(202)
                pause = _pause(attempt, error)
                is_late = attempt >= retries or time.monotonic() + pause >= ends
                # a full disk seldom gets space within the seconds of a call; a wait has them
                is_full = isinstance(error, DiskFull) and not again
                if is_late or is_full or not _may_repeat(request, error):
                    raise
                was_lost = was_lost or isinstance(error, _PERHAPS_DONE)
            await self.link.sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(self, request: Request[Any], seconds: float, *, stream: bool) -> httpx.Response:
        built = self.link.client.build_request(
            request.method,
            self.base_url + request.path,
            params=request.query or None,
            json=request.body,
            files=request.files,
            timeout=min(self.timeout, seconds),
        )
        try:
            response = await self.link.send(built)
            if not (stream and response.is_success):
                await self.link.read(response)
        except httpx.RequestError as error:
            raise from_transport(built, error) from error
        if response.is_success:
            return response
        raise from_response(response)


@cache
def _reader(answer: Any) -> TypeAdapter[Any]:
    """The parser for answers of a type. Cached: models are built on first use, which takes longer than most calls."""
    return TypeAdapter(answer)


def _parsed(request: Request[T], response: httpx.Response, content: bytes) -> T:
    if request.answer is bytes:
        return cast("T", content)
    if request.answer is None:
        return cast("T", None)
    try:
        return cast("T", _reader(cast("Any", request.answer)).validate_json(content))
    except ValidationError as error:
        raise unexpected(response, "answered what this client cannot read") from error


def _may_repeat(request: Request[Any], error: FoldexError) -> bool:
    """Whether a request may be sent again: it is repeatable, or the service certainly did not carry it out."""
    if isinstance(error, ConnectionFailed):
        return request.repeatable or isinstance(error.__cause__, _UNSENT)
    if isinstance(error, DatabaseUnavailable):  # see `_PERHAPS_DONE`
        return request.repeatable
    if isinstance(error, UnexpectedAnswer) and error.status in _GATEWAY:
        return request.repeatable
    return error.status in {429, 503}


def _pause(attempt: int, error: FoldexError) -> float:
    """Seconds before the next attempt. Randomness keeps clients from coming back all at once."""
    backoff = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(attempt, 9)) * random.uniform(0.5, 1)  # noqa: S311 # no secret
    return max(backoff, error.retry_after or 0.0)
