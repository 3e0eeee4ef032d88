"""Probes of load balancers and monitors."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.routes import health


def test_a_monitor_may_ask_with_head() -> None:
    app = FastAPI()
    app.include_router(health.router)
    # no pool is here to be asked, so that `readyz` fails after it was reached
    client = TestClient(app, raise_server_exceptions=False)
    assert [client.request(method, "/healthz").status_code for method in ("GET", "HEAD", "POST")] == [200, 200, 405]
    assert client.head("/readyz").status_code == 500


@pytest.mark.parametrize(
    ("warning", "answer"), [(None, {"status": "ready"}), ("low", {"status": "ready", "warning": "low"})]
)
def test_the_api_is_ready_as_long_as_postgres_answers(warning: str | None, answer: dict[str, str]) -> None:
    asked: list[str] = []
    connection = SimpleNamespace(execute=asked.append)
    pool = SimpleNamespace(connection=lambda: nullcontext(connection))
    app = FastAPI()
    app.include_router(health.router)
    app.state.resources = SimpleNamespace(pool=pool, space=SimpleNamespace(warning=lambda: warning))
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/readyz").json() == answer
    assert asked

    def fail(_: str) -> None:
        raise psycopg.OperationalError("away")

    connection.execute = fail
    assert client.get("/readyz").status_code == 500
