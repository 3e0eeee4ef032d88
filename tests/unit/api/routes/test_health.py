"""Probes of load balancers and monitors."""

from __future__ import annotations

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
