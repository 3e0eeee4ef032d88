"""Probes of load balancers and monitors."""

from __future__ import annotations

from types import SimpleNamespace

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.routes import health
from worker.hosts import compare
from worker.state import open_work, silent_backends, store_directories
from worker.state.open_work import UNWATCHED, UNWATCHED_SECONDS


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
def test_the_api_is_ready_as_long_as_postgres_answers(
    warning: str | None, answer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ages: list[float] = [0.0]
    monkeypatch.setattr(open_work, "sweep_age", lambda _: ages[-1])
    monkeypatch.setattr(silent_backends, "blockers", lambda _: [])
    monkeypatch.setattr(store_directories, "refusals", lambda _: [])
    monkeypatch.setattr(compare, "findings", lambda _: [])
    app = FastAPI()
    app.include_router(health.router)
    space = SimpleNamespace(warning=lambda: warning)
    app.state.resources = SimpleNamespace(pool=None, space=space, refused=dict)
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/readyz").json() == answer
    ages.append(UNWATCHED_SECONDS + 1)
    both = " ".join(filter(None, (warning, UNWATCHED)))
    assert client.get("/readyz").json() == {"status": "ready", "warning": both}

    def fail(_: object) -> float:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(open_work, "sweep_age", fail)
    assert client.get("/readyz").status_code == 500
