"""An API process that reports with each answer how long it took, and how much of that was external.

Headers of an answer, milliseconds: `X-Total` from the request's head to the answer's head, `X-Provider` within calls
of the embedder, `X-Store` within calls of the vector store, `X-Keywords` waiting for keywords in Postgres once the
store has answered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.main import create_app
from api.search.query import answer, legs
from worker import logs
from worker.resources import Resources
from worker.settings import Settings

T = TypeVar("T")

_spent: ContextVar[dict[str, float] | None] = ContextVar("spent", default=None)


def clocked(name: str, call: Callable[..., T]) -> Callable[..., T]:
    """`call`, with its time added to the request that it serves."""

    def timed(*args: Any, **kwargs: Any) -> T:
        started = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            spent = _spent.get()
            if spent is not None:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - started

    return timed


class ClockedResources:
    """Wraps `Resources` and times the calls that leave the process."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._clocked: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resources, name)

    def embedder(self, *args: Any, **kwargs: Any) -> Any:
        return self._once(self._resources.embedder(*args, **kwargs), "provider", ["embed"])

    def store(self, *args: Any) -> Any:
        return self._once(self._resources.store(*args), "store", ["search"])

    def _once(self, opened: Any, name: str, calls: Sequence[str]) -> Any:
        if id(opened) not in self._clocked:
            for call in calls:
                setattr(opened, call, clocked(name, getattr(opened, call)))
            self._clocked[id(opened)] = opened
        return opened


def carry_clocks() -> None:
    """Tell threads of pools which request they work for."""
    plain: Any = ThreadPoolExecutor.submit

    def submit(pool: ThreadPoolExecutor, call: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = plain(pool, copy_context().run, call, *args, **kwargs)
        return future

    setattr(ThreadPoolExecutor, "submit", submit)  # noqa: B010 - a checker takes no plain assignment here


class Clock:
    """ASGI middleware that writes the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        spent: dict[str, float] = {}
        _spent.set(spent)
        started = time.perf_counter()

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                spent["total"] = time.perf_counter() - started
                headers = [(f"x-{name}".encode(), f"{value * 1000:.3f}".encode()) for name, value in spent.items()]
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app(scope, receive, told)


def main() -> None:
    settings = Settings()
    logs.configure(settings.log_level)
    carry_clocks()
    setattr(answer, "keyword_rankings", clocked("keywords", legs.keyword_rankings))  # noqa: B010 - no seam is there
    app = create_app(settings)
    app.state.resources = ClockedResources(app.state.resources)
    uvicorn.run(Clock(app), host="127.0.0.1", port=int(sys.argv[1]), log_config=None, access_log=False)


if __name__ == "__main__":
    main()
