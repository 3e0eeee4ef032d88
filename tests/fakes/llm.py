"""What the fakes of chats and rankers have in common: a server of JSON that fails, holds and refuses on demand."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.fakes.embeddings import Refusal
from tests.fakes.hold import Holds
from tests.fakes.server import Handler, Server

Json = dict[str, Any]


class LlmHandler(Handler, BaseHTTPRequestHandler):
    """Sends what its fake answers. A client may be killed, or give up, meanwhile."""

    server: _Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.lines["content-length"]))
        key = self.lines.get("authorization", "").removeprefix("Bearer ")
        try:
            body = self.server.fake.answer(self.path, key, raw, self.client_address[1])
        except Refusal as refusal:
            if refusal.status == 0:
                self.close_connection = True
            else:
                more = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
                self.send_json(refusal.status, json.dumps(self.server.fake.error_body(refusal)).encode(), more)
        else:
            self.send_answer(raw, body)

    def send_answer(self, raw: bytes, body: bytes) -> None:
        """Send the answer to a request."""
        self.send_json(200, body, {})

    def send_json(self, status: int, body: bytes, more: dict[str, str]) -> None:
        """Send a whole answer."""
        self.send(status, body, {"Content-Type": "application/json", **more})


@dataclass
class LlmFake(ABC):
    """The server, on any free port."""

    handler: ClassVar[type[LlmHandler]] = LlmHandler

    holds: Holds = field(default_factory=Holds)
    _failures: list[Refusal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), self.handler)
        self._server.fake = self

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.holds.release()
        self._server.shutdown()
        self._server.server_close()

    def fail_next(self, status: int, count: int = 1, retry_after: float | None = None) -> None:
        """Answer the next requests with this status; 0 closes the connection without an answer."""
        self._failures += [Refusal(status, f"told to answer {status}", retry_after=retry_after)] * count

    def reset(self) -> None:
        """Drop the holds and the failures that are still to come."""
        self.holds.release()
        self._failures.clear()

    @abstractmethod
    def answer(self, path: str, key: str, raw: bytes, port: int) -> bytes:
        """The response body. Raises `Refusal`."""

    def error_body(self, refusal: Refusal) -> Json:
        """What a refusal says."""
        return refusal.body

    def admit(self, kind: str, key: str, raw: bytes, port: int) -> None:
        """Hold a request as long as a test asks for it. Raises `Refusal` if it is to fail, or has no valid key."""
        self.holds.wait(kind, raw, port, after=False)
        if self._failures:
            raise self._failures.pop(0)
        if key in {"", "wrong"}:
            raise Refusal(401, "invalid api key")


class _Server(Server):
    fake: LlmFake
