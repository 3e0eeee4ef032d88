"""Prometheus metrics: requests as they arrive, and the backlog read from Postgres at each scrape."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import structlog
from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from psycopg import OperationalError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.errors import SchemaBehind
from worker.state.pool import Pool
from worker.state.queries import load

#: What a scrape looks like.
_TEXT = {
    "schema": {"type": "string"},
    "example": 'foldex_requests_total{method="GET",route="/healthz",status="200"} 1.0\n',
}
#: Seconds to wait for Postgres. Prometheus gives up a scrape after ten.
POSTGRES_SECONDS = 3.0

#: The gauges of the query `backlog`, in its order.
_BACKLOG = {
    "foldex_files_pending": "Files waiting in open tasks",
    "foldex_tombstones": "Vectors still to be deleted",
    "foldex_oldest_task_seconds": "Age of the oldest open task",
    "foldex_sweep_age_seconds": "Time since a worker last looked for work",
}

_SQL = load("metrics")

log = structlog.get_logger()


class BacklogCollector(Collector):
    """Pending work, read from the rows so that it cannot drift from them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterable[Metric]:
        """Yield gauges of open tasks, of the backlog and of the last sweep; none while Postgres is down."""
        try:
            yield from self._gauges()
        except (OperationalError, SchemaBehind) as error:
            # request metrics matter most during an outage, so serve them anyway
            log.warning("Postgres does not answer, or lacks migrations; the metrics omit the backlog", error=str(error))

    def _gauges(self) -> Iterable[Metric]:
        tasks = GaugeMetricFamily("foldex_tasks", "Open index tasks", labels=["status"])
        with self._pool.connection(timeout=POSTGRES_SECONDS) as connection:
            for status, count in connection.execute(_SQL["tasks"]).fetchall():
                tasks.add_metric([status], count)
            row = connection.execute(_SQL["backlog"]).fetchone() or (0, 0, 0, 0)
        yield tasks
        for (name, text), value in zip(_BACKLOG.items(), row, strict=True):
            yield GaugeMetricFamily(name, text, value=float(value))


def install(app: FastAPI, *collectors: Collector) -> None:
    """Count requests and serve `/metrics`, with what the collectors add.

    Several processes count together, in the directory that prometheus_client reads from the environment.
    """
    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    is_shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
    if is_shared:
        # the library has read the variable on import, which may have been before it was set
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call] # the library has no type there
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # the library has no type there
    counted = None if is_shared else registry
    requests = Counter("foldex_requests", "Requests", ["method", "route", "status"], registry=counted)
    seconds = Histogram("foldex_request_seconds", "Seconds a request took", ["method", "route"], registry=counted)

    app.add_middleware(RequestMeasuring, requests=requests, seconds=seconds)

    @app.get("/metrics", tags=["health"], response_class=Response, responses={200: {"content": {"text/plain": _TEXT}}})
    def metrics() -> Response:
        """Metrics in the Prometheus text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class RequestMeasuring:
    """Measures requests. Plain ASGI: Starlette's `@middleware` costs each request a task and two streams."""

    def __init__(self, app: ASGIApp, requests: Counter, seconds: Histogram) -> None:
        self._app, self._requests, self._seconds = app, requests, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._note(scope, status, time.monotonic() - started)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if not status:  # an outer handler turns the exception into a 500
                self._note(scope, 500, time.monotonic() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        self._requests.labels(scope["method"], route, status).inc()
        self._seconds.labels(scope["method"], route).observe(seconds)
