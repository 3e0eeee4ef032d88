"""Turbopuffer in memory, over HTTP: the calls of its client 3.1 that we use, answered by `turbopuffer_namespace`.

In a test: `with FakeTurbopuffer() as fake: TurbopufferStore(fake.api_key, base_url=fake.url, …)`. As a process:
`python -m tests.fakes.turbopuffer --port 8123 --api-key KEY`, with `GET /_audit` and `POST /_fault`.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.hold import Holds
from tests.fakes.server import Server
from tests.fakes.turbopuffer_namespace import Json, Namespace, Refused, queries, require, write

MAX_BODY = 512_000_000
#: Subqueries that a namespace runs at once, and the seconds for which the next one waits.
MAX_SUBQUERIES, SUBQUERY_WAIT_S = 16, 0.8
#: Bytes that a namespace has not yet indexed, from which it refuses writes.
MAX_UNINDEXED = 2_000_000_000
#: Rows and bytes of a shard.
MAX_SHARD_ROWS, MAX_SHARD_BYTES = 500_000_000, 1_000_000_000_000
#: The status of a query whose index is being built. Its answer has no results.
ACCEPTED = 202
INVALID_NAME = "invalid namespace name"
NAMESPACE = re.compile(r"[A-Za-z0-9\-_.]{1,128}")


@dataclass(frozen=True, slots=True)
class Call:
    """One audited request, with the ids it asked to change. `applied`: whether the namespace was changed or read.

    `legs` is the number of queries of a multi-query.
    """

    method: str
    path: str
    status: int
    applied: bool
    upserts: list[str]
    patches: list[str]
    deletes: list[str]
    legs: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that replaces the real one; status 0 drops the connection."""

    status: int
    applied: bool = False
    retry_after: float | str | None = None


class FakeTurbopuffer:
    """The service: namespaces, an audit of all requests, and faults to come. A context manager that serves `url`."""

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, api_key: str = "tpuf_fake", max_body: int = MAX_BODY
    ) -> None:
        self.api_key = api_key
        self.max_body = max_body
        self.namespaces: dict[str, Namespace] = {}
        self.audit: list[Call] = []
        self.faults: deque[Fault] = deque()
        #: Held requests have the kind `upsert`, `patch`, `delete`, `query`, `drop` or `read`.
        self.holds = Holds()
        self.refused: str | None = None
        #: Additional seconds that a request takes for each of its bytes, and that a query takes.
        self.seconds_per_byte = self.query_seconds = 0.0
        #: The limits of a namespace. Tests make them small.
        self.max_unindexed, self.max_shard_rows, self.max_shard_bytes = MAX_UNINDEXED, MAX_SHARD_ROWS, MAX_SHARD_BYTES
        #: Bytes of each namespace that were written, and those that are not yet indexed.
        self.written: Counter[str] = Counter()
        self.unindexed: Counter[str] = Counter()
        #: The subqueries in progress, by namespace, and the most that ever were.
        self.running: Counter[str] = Counter()
        self.most_running = 0
        self._ended = threading.Condition()
        #: Every request's target and body, once a test puts a list here.
        self.received: list[bytes] | None = None
        self.lock = threading.RLock()
        self.connections: set[socket.socket] = set()
        self._server = _Server((host, port), self)
        self.url = f"http://{host}:{self._server.server_port}"

    @property
    def env(self) -> dict[str, str]:
        """The settings that a service needs to use it."""
        return {"TURBOPUFFER_API_KEY": self.api_key, "TURBOPUFFER_BASE_URL": self.url}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.holds.release()
        self._server.shutdown()
        self._server.server_close()
        with self.lock:
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def serve_forever(self) -> None:
        self._server.serve_forever()

    def fail_next(
        self, status: int, *, applied: bool = False, count: int = 1, retry_after: float | str | None = None
    ) -> None:
        """Answer the next `count` requests with `status` (0 drops the connection), after applying them if `applied`."""
        with self.lock:
            self.faults.extend([Fault(status, applied, retry_after)] * count)

    def refuse(self, word: str | None) -> None:
        """From now on refuse every write whose body contains this word."""
        with self.lock:
            self.refused = word

    def answer(
        self, method: str, target: str, key: str | None, raw: bytes, port: int = 0
    ) -> tuple[int, Json, Fault | None]:
        """Answer one request from a client's port, one at a time, and record it."""
        kind = kind_of(method, target, raw)
        if self.received is not None:
            self.received.append(target.encode() + b"\n" + raw)
        time.sleep(len(raw) * self.seconds_per_byte)
        self.holds.wait(kind, target.encode() + raw, port, after=False)
        answer = self._queried(method, target, key, raw) if kind == "query" else self._answer(method, target, key, raw)
        self.holds.wait(kind, target.encode() + raw, port, after=True)
        return answer

    def _queried(self, method: str, target: str, key: str | None, raw: bytes) -> tuple[int, Json, Fault | None]:
        """Answer a query while the namespace has room for its subqueries."""
        namespace = urlsplit(target).path
        # more are refused
        subqueries = min(max(1, len(parsed(raw).get("queries") or ())), MAX_SUBQUERIES)
        with self._ended:
            if not self._ended.wait_for(
                lambda: self.running[namespace] + subqueries <= MAX_SUBQUERIES, SUBQUERY_WAIT_S
            ):
                with self.lock:
                    self.audit.append(Call(method, namespace, 429, applied=False, upserts=[], patches=[], deletes=[]))
                return 429, {"status": "error", "error": "too many concurrent queries"}, None
            self.running[namespace] += subqueries
            self.most_running = max(self.most_running, self.running[namespace])
        try:
            time.sleep(self.query_seconds)
            return self._answer(method, target, key, raw)
        finally:
            with self._ended:
                self.running[namespace] -= subqueries
                self._ended.notify_all()

    def _answer(self, method: str, target: str, key: str | None, raw: bytes) -> tuple[int, Json, Fault | None]:
        with self.lock:
            fault = self.faults.popleft() if self.faults else None
            applied = False
            body: Json = {}
            try:
                body = parsed(raw)
                require(fault is None or fault.applied, "fault", fault.status if fault else 0)
                require(key == f"Bearer {self.api_key}", "invalid API key", 401)
                refused = self.refused is not None and self.refused.encode() in raw
                require(not refused or kind_of(method, target, raw) != "upsert", "a row is refused")
                status, result = 200, self._route(method, target, body)
                applied = True
            except Refused as refused:
                status, result = refused.status, {"status": "error", "error": refused.message}
                body = {} if status == 422 else body
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                # A body that does not have the form of a request fails somewhere in this block.
                status, result = 422, {"status": "error", "error": f"Failed to deserialize the JSON body: {error!r}"}
                body = {}
            if fault is not None:
                # an index that a query needs is being built
                said = {"status": "ACCEPTED"} if fault.status == ACCEPTED else {"status": "error", "error": "fault"}
                status, result = fault.status, said
            self.audit.append(
                Call(method, urlsplit(target).path, status, applied, *_touched(body), len(body.get("queries") or ()))
            )
            return status, result, fault

    def _route(self, method: str, target: str, body: Json) -> Json:
        url = urlsplit(target)
        version, kind, *rest = [unquote(part) for part in url.path.strip("/").split("/")]
        require(kind == "namespaces" and len(rest) <= 2, "no such endpoint", 404)
        if not rest:
            return self._list({name: given[0] for name, given in parse_qs(url.query).items()})
        require(NAMESPACE.fullmatch(rest[0]), INVALID_NAME)
        verb = (method, version, *rest[1:])
        if verb == ("POST", "v2"):
            return self._write(rest[0], body, len(json.dumps(body)))
        space = self.namespaces.get(rest[0])
        if space is None:
            raise Refused(404, f"🤷 namespace '{rest[0]}' was not found")
        if verb == ("DELETE", "v2"):
            del self.namespaces[rest[0]], self.written[rest[0]], self.unindexed[rest[0]]
            return {"status": "OK"}
        if verb == ("POST", "v2", "query"):
            return queries(space, body)
        if verb == ("GET", "v1", "schema"):
            return space.schema
        require(verb == ("GET", "v2", "metadata"), "no such endpoint", 404)
        return {"schema": space.schema, "approx_row_count": len(space.rows), "index": {"status": "up-to-date"}}

    def _list(self, asked: dict[str, str]) -> Json:
        size = int(asked.get("page_size", "100"))
        require(1 <= size <= 1000, "page_size must be between 1 and 1000")
        names = sorted(name for name in self.namespaces if name.startswith(asked.get("prefix", "")))
        names = [name for name in names if name > asked.get("cursor", "")]
        more = names[size - 1] if len(names) > size else None
        return {"namespaces": [{"id": name} for name in names[:size]], "next_cursor": more}

    def indexed(self, name: str) -> None:
        """Note that a namespace has indexed all that was written."""
        with self.lock:
            del self.unindexed[name]

    def _write(self, name: str, body: Json, size: int) -> Json:
        space = self.namespaces.get(name)
        # back-pressure may be turned off, but not for writes with a condition
        is_pressed = not body.get("disable_backpressure") or any(key.endswith("_condition") for key in body)
        require(not is_pressed or self.unindexed[name] + size <= self.max_unindexed, "too much is not yet indexed", 429)
        if space is None:
            # whether a patch or a delete creates a namespace is not documented: assume that it does
            require(body.get("create_namespace") is not False, f"🤷 namespace '{name}' was not found", 404)
            space = Namespace()
        adds = any(key.startswith("upsert") for key in body)
        rows = len(space.rows) + len(_touched(body)[0])
        is_full = rows > self.max_shard_rows or self.written[name] + size > self.max_shard_bytes
        require(not adds or not is_full, "the namespace is full; shard it")
        result = write(space, body)
        self.written[name] += size
        self.unindexed[name] += size
        self.namespaces[name] = space
        return result


def parsed(raw: bytes) -> Json:
    body = json.loads(raw or b"{}")
    require(isinstance(body, dict), "Failed to deserialize the JSON body", 422)
    return dict(body)


def kind_of(method: str, target: str, raw: bytes) -> str:
    """The kind of a request, as holds name it. The client sends one kind of write at a time."""
    if method == "DELETE":
        return "drop"
    if urlsplit(target).path.endswith("/query"):
        return "query"
    keys = {b"upsert": b'"upsert_', b"patch": b'"patch_', b"delete": b'"deletes"'}
    return next((kind.decode() for kind, key in keys.items() if key in raw), "read")


def _touched(body: Json) -> tuple[list[str], list[str], list[str]]:
    def ids(kind: str) -> list[str]:
        rows, columns = body.get(f"{kind}_rows") or [], body.get(f"{kind}_columns") or {}
        return [str(row.get("id")) for row in rows] + [str(id_) for id_ in columns.get("id", [])]

    return ids("upsert"), ids("patch"), [str(id_) for id_ in body.get("deletes") or []]


class _Server(Server):
    def __init__(self, address: tuple[str, int], fake: FakeTurbopuffer) -> None:
        super().__init__(address, _Handler)
        self.fake = fake


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # Send headers and body in one packet: two packets would wait 40 ms for a delayed acknowledgement.
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        with self.server.fake.lock:
            self.server.fake.connections.add(self.connection)

    def finish(self) -> None:
        with self.server.fake.lock:
            self.server.fake.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > self.server.fake.max_body:
            self.close_connection = True
            self.reply(413, {"status": "error", "error": "request body is too large"})
        elif self.path.startswith("/_"):
            self.reply(200, self.control(self.rfile.read(size)))
        else:
            key = self.headers.get("Authorization")
            port = self.client_address[1]
            self.reply(*self.server.fake.answer(self.command, self.path, key, self.rfile.read(size), port))

    do_GET = do_DELETE = do_POST  # noqa: N815 - the names that http.server calls

    def control(self, raw: bytes) -> Json:
        if self.path == "/_fault":
            self.server.fake.fail_next(**json.loads(raw))
        return {"calls": [asdict(call) for call in list(self.server.fake.audit)]}

    def reply(self, status: int, result: Json, fault: Fault | None = None) -> None:
        if status == 0:
            self.close_connection = True
            return
        plain = result.get("error") == INVALID_NAME
        raw = INVALID_NAME.encode() if plain else json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if plain else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if fault is not None and fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Keep test output clean."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--api-key", default="tpuf_fake")
    given = options.parse_args()
    FakeTurbopuffer(port=given.port, api_key=given.api_key).serve_forever()


if __name__ == "__main__":
    main()
