"""A client whose answers a test writes down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from foldex_client import Foldex
from foldex_client.sending import BlockingLink

Reply = httpx.Response | httpx.RequestError


class Script:
    """Answers each request with the next reply, and the last one again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, httpx.RequestError):
            raise reply
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


NewClient = Callable[..., tuple[Foldex, Script]]


@pytest.fixture
def new_client() -> Iterator[NewClient]:
    clients = []

    def opened(*replies: Reply, base_url: str = "http://foldex.invalid", **options: Any) -> tuple[Foldex, Script]:
        script = Script(*replies)
        clients.append(Foldex(base_url, transport=httpx.MockTransport(script), **options))
        return clients[-1], script

    yield opened
    for client in clients:
        client.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept, each time."""
    slept: list[float] = []

    async def sleep(_: BlockingLink, seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(BlockingLink, "sleep", sleep)
    return slept


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    """An error as the service answers it."""
    return httpx.Response(status, headers=headers, json={"status": status, "code": code, "detail": f"{code} happened."})
