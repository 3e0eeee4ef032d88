"""Checks every request before it is parsed: API key and its scopes, origin and body size.

Plain ASGI, because FastAPI parses the body before it checks the key. JSON bodies are read here in full, limited in
bytes and time. Uploads are streamed and have their own limits.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from cachetools import LRUCache, TTLCache
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from psycopg import OperationalError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import bodies, lookup_cache, problems, request_log
from api.http.bodies import BodyBudget
from api.http.lookup_cache import Key, LookupCache, LookupCaches, Value
from api.http.scopes import OperationScopes, is_guarded
from api.http.shares import KEYS, UNNAMED, one_call
from api.identity import principals
from api.identity.tokens import TokenHolder, Tokens, is_token
from schemas.errors import (
    BodyTooSlow,
    CrossSite,
    FoldexError,
    Invalid,
    NotLoopback,
    ScopeMissing,
    TooLarge,
    Unauthorized,
)
from worker.machine.memory.api_memory import ApiMemory
from worker.machine.privacy import names_loopback
from worker.state.access import keys
from worker.state.access.keys import ValidKey

#: Seconds within which a request's body must arrive, unless it is an upload.
BODY_SECONDS = 60.0
#: Seconds for which the rest of a body is read and discarded after a refusal.
DISCARD_SECONDS = 10.0

#: Threads in which large bodies are parsed or wait for it.
PARSER_THREADS = 64
#: Maximum parameters of an address. They are parsed several times in the event loop: 32,000 of them take 0.3 s.
MAX_PARAMETERS = 1000
#: Maximum keys that are remembered as valid, and as unknown.
MAX_KNOWN = 10_000

#: Methods that change nothing.
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_UPLOAD_PATH = re.compile(r"/api/projects/[^/]+/uploads")
#: Paths of the calls that take the content of a file.
_CONTENT_PATH = re.compile(r"/api/projects/[^/]+/nodes(/[^/]+)?")
_MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class AdmittedKey:
    """The key of an admitted request, whom it acts for, and what it opens unless that was cached."""

    key_hash: bytes
    _key: ValidKey | None = None
    _since: float = field(default_factory=time.monotonic)
    #: None: for itself.
    principals: frozenset[str] | None = None

    @property
    def key(self) -> ValidKey | None:
        """The key, if the lookup is recent: receiving a long body may have taken too long since."""
        return self._key if time.monotonic() - self._since < lookup_cache.CACHE_SECONDS else None


class RequestGate:
    """Authorizes requests below `/api` unless it `is_open`, and limits the body size of all requests.

    A key that lacks the scope of an operation is refused before its body is read and anything is looked up.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_open: bool,
        max_body_bytes: int,
        caches: LookupCaches,
        operations: OperationScopes,
        tokens: Tokens | None = None,
        all_bodies: int = ApiMemory().bodies,
    ) -> None:
        self._app = app
        self._is_open = is_open
        self._max_bytes = max_body_bytes
        self._caches = caches
        self._operations = operations
        self._tokens = tokens
        #: Projects of keys that were valid before, by hash. They do not wait behind strangers' keys.
        self._known: LRUCache[bytes, str] = LRUCache(MAX_KNOWN)
        self._unknown: TTLCache[bytes, bool] = TTLCache(MAX_KNOWN, lookup_cache.CACHE_SECONDS)
        #: Threads in which bodies wait for their turn. Those of calls in progress are not taken for it.
        self._parsers = CapacityLimiter(PARSER_THREADS)
        # half for one project, and room for one body at least
        self._budget = BodyBudget(max(all_bodies, 2 * max_body_bytes), max(all_bodies // 2, max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, body = Request(scope), IncomingBody(receive)
        with one_call(), ExitStack() as held:
            try:
                owner = await self._admit(request)
                if request.method not in _SAFE_METHODS:
                    receive, send = await self._take_body(request, owner, body, send, held)
            except (FoldexError, OperationalError) as error:
                held.close()
                answer = problems.error_response(request, error)
                if self._tokens is not None and "WWW-Authenticate" in answer.headers:
                    answer.headers["WWW-Authenticate"] = self._tokens.metadata.challenge(request, error)
                if not isinstance(error, Unauthorized | CrossSite | ScopeMissing):
                    # the rest of the body must not be parsed as the next request
                    answer.headers["Connection"] = "close"
                    send = body.ending(send)
                await answer(scope, receive, send)
                return
            await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> str:
        """The project that sends the request, "" if it is not known.

        Raises `Invalid`, `NotLoopback`, `CrossSite`, `Unauthorized`, `TokenUnusable`, `IssuerUnavailable` or
        `ScopeMissing` unless the request is allowed.
        """
        if request.scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            raise Invalid(f"The address has more than {MAX_PARAMETERS:,} parameters; send fewer.")
        if not is_guarded(request.url.path):
            return ""
        if self._is_open:
            check_loopback(request)
            _check_same_site(request)
            principals.sent(request.headers)
            return ""
        sent = _sent_bearer(request)
        if not sent:
            raise unauthorized()
        if self._tokens is not None and is_token(sent):
            holder = await self._tokens.holder(sent)
            self._check(request, holder)
            request.state.admission = holder
            return holder.project_id
        admission, found = await self._admission_of(keys.hashed(sent), request)
        request.state.admission = replace(admission, principals=self._check(request, found))
        return found.project_id

    def _check(self, request: Request, caller: ValidKey | TokenHolder) -> frozenset[str] | None:
        """Check that a caller may send a request. Returns the principals that it names; None: it names none.

        Raises `ScopeMissing` and `Invalid`.
        """
        request_log.note_project(caller.project_id)
        self._operations.check(request.scope, caller.scopes)
        if principals.HEADER in request.headers and "impersonate" not in caller.scopes:
            raise ScopeMissing.of("impersonate", caller.scopes)
        return principals.sent(request.headers)

    async def _admission_of(self, key_hash: bytes, request: Request) -> tuple[AdmittedKey, ValidKey]:
        known = self._caches.keys
        cached = known.cached(key_hash)
        if cached is not None:
            return AdmittedKey(key_hash), cached
        if key_hash in self._unknown:
            raise unauthorized()
        # no project's id has a NUL
        owner = self._known.get(key_hash) or f"\0{request.client.host if request.client else UNNAMED}"
        async with KEYS.hold_by_call(owner):
            found = await run_in_threadpool(known.get, key_hash)
        if found is None:
            self._unknown[key_hash] = True
            raise unauthorized()
        self._known[key_hash] = found.project_id
        return AdmittedKey(key_hash, found), found

    async def _take_body(
        self, request: Request, owner: str, body: Receive, send: Send, held: ExitStack
    ) -> tuple[Receive, Send]:
        """Read and parse the body, unless it is an upload. `held` ends what it holds.

        Raises `TooLarge`, `TooManyValues`, `BodiesBusy`, `BodyTooSlow` and `Invalid`.
        """
        add = held.enter_context(self._budget.holding(owner))
        path = request.url.path
        if _UPLOAD_PATH.fullmatch(path):
            add(bodies.UPLOAD_BYTES)
            return body, send
        has_content = _CONTENT_PATH.fullmatch(path) is not None
        message = await self._read(request, body, add, has_content=has_content)
        data = message.get("body", b"")
        if path == _MCP_PATH:
            # its library parses it
            await to_thread.run_sync(bodies.check, data, bodies.MAX_MCP_VALUES, limiter=self._parsers)
        elif data:
            turn = held.enter_context(ExitStack())
            most_values = bodies.MAX_CONTENT_VALUES if has_content else bodies.MAX_VALUES
            if len(data) <= bodies.INLINE_BYTES:
                bodies.parse(request.scope, data, most_values)
            else:
                parse = partial(bodies.parse_in_turn, request.scope, data, most_values, owner, turn)
                await to_thread.run_sync(parse, limiter=self._parsers)
                send = _closing(turn, send)
        return replayed(message, body), send

    async def _read(
        self, request: Request, receive: Receive, add: Callable[[int], None], *, has_content: bool
    ) -> Message:
        """A message with the whole body, or the message that the caller left."""
        most = self._max_bytes if has_content else min(self._max_bytes, bodies.MAX_PLAIN_BYTES)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise self._too_large(most)
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return message
                    piece = message.get("body", b"")
                    if len(body) + len(piece) > most:
                        raise self._too_large(most)
                    add(len(piece))
                    body += piece
                    more = message.get("more_body", False)
        except TimeoutError as error:
            raise BodyTooSlow(f"The body did not arrive within {BODY_SECONDS:g} s; send it again.") from error
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    def _too_large(self, most: int) -> TooLarge:
        if most < self._max_bytes:
            return TooLarge(f"The body has more than {most:,} bytes, which only the content of a file may; send less.")
        return TooLarge(f"The body has more than MAX_BODY_BYTES ({most:,}) bytes; send less, or upload it as a file.")


def _closing(turn: ExitStack, send: Send) -> Send:
    """A `send` that first ends the turn of a body: the answer does not need the parsed body."""

    async def send_after(message: Message) -> None:
        turn.close()
        await send(message)

    return send_after


class IncomingBody:
    """A `receive` that knows whether the body has ended."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._has_ended = receive, False

    async def __call__(self) -> Message:
        """See ASGI."""
        message = await self._receive()
        self._has_ended = not message.get("more_body", False)
        return message

    def ending(self, send: Send) -> Send:
        """A `send` that ends an answer only after the body, or after `DISCARD_SECONDS`.

        A client that still sends when its connection is closed would lose the answer.
        """

        async def end_later(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({**message, "more_body": True})
            await self._discard()
            await send({"type": "http.response.body"})

        return end_later

    async def _discard(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._has_ended:
                    await self()


def replayed(message: Message, receive: Receive) -> Receive:
    """A `receive` that returns a message first."""
    messages = [message]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _sent_bearer(request: Request) -> str:
    """The key or token of a request; "" if there is none."""
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    return sent.strip() if scheme.lower() == "bearer" else ""


def unauthorized() -> Unauthorized:
    """The error for a missing, unknown, expired or revoked key."""
    return Unauthorized(Unauthorized.example)


async def looked_up(values: LookupCache[Key, Value], key: Key) -> Value | None:
    """The cached value, or a lookup in a thread. Thread switches are expensive in a busy process."""
    cached = values.cached(key)
    return await run_in_threadpool(values.get, key) if cached is None else cached


def check_loopback(request: Request) -> None:
    """Raise `NotLoopback` unless the request comes from this machine and uses a loopback host name.

    A browser here may run a page from anywhere. Such a page is recognized by its own site's name in the request.
    """
    client = request.client.host if request.client else None
    if not all(host is not None and names_loopback(host) for host in (request.url.hostname, client)):
        raise NotLoopback("AUTH=off serves this machine only; set AUTH=on and create a key with `foldex keys create`.")


def _check_same_site(request: Request) -> None:
    """Raise `CrossSite` for a request that changes data and comes from a page of another site.

    Browsers send forms and uploads to any address without asking. They always name the origin; other programs do not.
    """
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        raise CrossSite(
            "A page of another site sent this request; send it from a program, or from a page of this server."
        )
