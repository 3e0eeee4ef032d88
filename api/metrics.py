"""Prometheus metrics: requests as they come, and the backlog as Postgres has it when scraped."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from worker.state import Pool, load

_SQL = load("metrics")


class Backlog(Collector):
    """What waits, read from the rows: no counter can drift from them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterable[Metric]:
        """One gauge for tasks by status, and gauges for files in open tasks."""
        tasks = GaugeMetricFamily("foldex_tasks", "Open index tasks", labels=["status"])
        with self._pool.connection() as connection:
            for status, count in connection.execute(_SQL["tasks"]).fetchall():
                tasks.add_metric([status], count)
            row = connection.execute(_SQL["backlog"]).fetchone() or (0, 0, 0)
        yield tasks
        names = ("foldex_files_pending", "foldex_tombstones", "foldex_oldest_task_seconds")
        texts = ("Files waiting in open tasks", "Vectors still to be deleted", "Age of the oldest open task")
        for name, text, value in zip(names, texts, row, strict=True):
            yield GaugeMetricFamily(name, text, value=float(value))


def install(app: FastAPI, pool: Pool) -> None:
    """Count requests, and serve `/metrics`."""
    registry = CollectorRegistry()
    registry.register(Backlog(pool))
    requests = Counter("foldex_requests", "Requests", ["method", "route", "status"], registry=registry)
    seconds = Histogram("foldex_request_seconds", "Seconds a request took", ["method", "route"], registry=registry)

    @app.middleware("http")
    async def measure(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        started = time.monotonic()
        status = 500  # what an exception becomes, further out
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            route = getattr(request.scope.get("route"), "path", "unknown")
            requests.labels(request.method, route, status).inc()
            seconds.labels(request.method, route).observe(time.monotonic() - started)

    @app.get("/metrics", tags=["health"], response_class=Response)
    def metrics() -> Response:
        """Metrics in Prometheus' text form."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
