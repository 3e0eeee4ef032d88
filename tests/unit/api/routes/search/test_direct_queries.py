"""Queries that FastAPI does not see are answered, logged and counted as those that it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
import structlog
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import DataError, OperationalError
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from api.http.disconnect import CallerLeft, Disconnect
from api.http.lookup_cache import LookupCache
from api.main import create_app
from api.routes.search import direct_queries, queries
from api.routes.search.direct_queries import DirectQueries
from schemas.errors import EmbeddingUnavailable, NoTree, SearchBusy
from schemas.queries.search import Query
from worker.settings import Settings
from worker.state.access import keys

NOWHERE = "postgresql://127.0.0.1:1/none"
OWN, FOREIGN = uuid4(), uuid4()
KEYS = {"fx-own": "mine", "fx-other": "other"}
#: What a search raises, by the query that asks for it.
RAISED: dict[str, Exception] = {
    "busy": SearchBusy("busy"),
    "blocked": EmbeddingUnavailable("blocked", retry_after=7),
    "no tree": NoTree("none"),
    "database": OperationalError("gone"),
    "nul": DataError("nul"),
    "disk": OSError(28, "full"),
    "file": OSError(2, "missing"),
    "left": CallerLeft(),
    "fault": RuntimeError("fault"),
}


class Sent(NamedTuple):
    """A request for a query."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    method: str = "POST"


#: An answer, the line in the log, and how often each route was counted.
Outcome = tuple[int, bytes, dict[str, str], list[dict[str, Any]], set[str]]


def told(_resources: object, tool_id: UUID, index: Any, query: Query, _: Disconnect, on_step: object = None) -> str:
    """Instead of an answer: what was asked, and in which of both ways steps are heard."""
    for text in query.texts:
        if text in RAISED:
            raise RAISED[text]
    asked = {name: repr(getattr(query, name)) for name in sorted(query.model_fields_set)}
    return json.dumps({"tool": str(tool_id), "project": index.project_id, "asked": asked})


def made(*, auth: str, direct: bool) -> FastAPI:
    app = create_app(Settings.model_validate({"database_url": NOWHERE, "auth": auth}))
    if not direct:
        app.user_middleware = [each for each in app.user_middleware if each.cls is not DirectQueries]  # type: ignore[comparison-overlap]
    indexes: dict[UUID, Any] = {
        OWN: SimpleNamespace(project_id="mine"),
        FOREIGN: SimpleNamespace(project_id="other"),
    }
    projects = {keys.hashed(key): project for key, project in KEYS.items()}
    caches = app.state.lookup_caches
    caches.indexes, caches.projects = LookupCache(indexes.get), LookupCache(projects.get)
    return app


def outcome(app: FastAPI, sent: Sent) -> Outcome:
    client = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 1))
    before = counted(client)
    with capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        answer = client.request(
            sent.method, sent.path, content=sent.body, headers={"X-Request-Id": "r", **sent.headers}
        )
    lines = [{name: value for name, value in line.items() if name != "ms"} for line in logged]
    for line in lines:
        line.pop("exc_info", None)
    return answer.status_code, answer.content, dict(answer.headers), lines, counted(client) - before


def counted(client: TestClient) -> set[str]:
    """The lines of metrics that count queries."""
    return {
        line.rpartition("_total")[2]
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("foldex_requests_total") and "/metrics" not in line
    }


@pytest.fixture(scope="module")
def apps() -> Iterator[dict[str, tuple[FastAPI, FastAPI]]]:
    """Two equal applications for each way to authorize: one answers queries directly, the other by its route."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "query_answer", told)
        patch.setattr(direct_queries, "query_answer", told)
        yield {auth: (made(auth=auth, direct=True), made(auth=auth, direct=False)) for auth in ("on", "off")}


def bodies() -> st.SearchStrategy[bytes]:
    text = st.sampled_from([*RAISED, "words", " ", "", "\ud800", "\0", "é", 7, None])
    fields = st.fixed_dictionaries(
        {},
        optional={
            "query": text,
            "queries": st.lists(text, max_size=2),
            "top_k": st.sampled_from([1, 10, 0, "5", 5.0, 1.5, True, 10**30]),
            "mode": st.sampled_from(["hybrid", "vector", "odd"]),
            "filters": st.sampled_from([{}, {"types": ["code"]}, {"odd": 1}, []]),
            "min_score": st.sampled_from([0.5, float("nan"), "0.5"]),
            "tree": st.sampled_from(["off", "collapsed", 1]),
            "odd": st.just(1),
        },
    )
    whole = st.one_of(fields, st.just({"query": "words"}), st.just({"query": "words", "top_k": 3}))
    encoded = whole.map(lambda body: json.dumps(body).encode())
    odd = [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, '{"query": "x"}'.encode("utf-16")]
    twice = b'{"query": "first", "query": "second"}'
    return st.one_of(encoded, encoded, st.sampled_from([*odd, twice, b'{"query": "x"} ', b'{"query": "x"}}']))


def requests() -> st.SearchStrategy[Sent]:
    ids = [str(OWN), str(OWN), str(OWN), str(FOREIGN), str(uuid4()), str(OWN).upper(), OWN.hex, "none", f"{OWN}x"]
    paths = st.builds(
        "/api/tools/search/{}/query{}".format, st.sampled_from(ids), st.sampled_from(["", "", "", "?a=1", "/"])
    )
    types = ["application/json"] * 4 + ["application/json; charset=utf-8", "application/x+json", "text/plain", ""]
    accepts = ["*/*", "*/*", "application/json", "text/event-stream", "text/event-stream, application/json"]
    said = st.fixed_dictionaries(
        {"content-type": st.sampled_from(types), "accept": st.sampled_from(accepts)},
        optional={
            "authorization": st.sampled_from(
                ["Bearer fx-own", "Bearer fx-own", "Bearer fx-other", "Bearer x", "Basic x"]
            ),
            "origin": st.sampled_from(["http://127.0.0.1", "http://elsewhere"]),
        },
    )
    return st.builds(Sent, paths, bodies(), said, st.sampled_from(["POST"] * 6 + ["PUT", "GET"]))


@settings(max_examples=60)
@given(requests(), st.sampled_from(["on", "off"]))
def test_a_direct_answer_is_that_of_the_route(apps: Any, sent: Sent, auth: str) -> None:
    direct, by_route = apps[auth]
    assert outcome(direct, sent) == outcome(by_route, sent)


@pytest.mark.parametrize("text", sorted(RAISED))
def test_errors_are_answered_as_by_the_route(apps: Any, text: str) -> None:
    direct, by_route = apps["off"]
    sent = Sent(
        f"/api/tools/search/{OWN}/query", json.dumps({"query": text}).encode(), {"content-type": "application/json"}
    )
    assert outcome(direct, sent) == outcome(by_route, sent)


def test_the_usual_query_never_reaches_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_queries, "query_answer", told)
    monkeypatch.setattr(queries, "query_answer", refused)
    app = made(auth="off", direct=True)
    sent = Sent(f"/api/tools/search/{OWN}/query", b'{"query": "words"}', {"content-type": "application/json"})
    assert outcome(app, sent)[0] == 200


def refused(*_: object) -> str:
    raise AssertionError("the route was asked")


def test_a_search_ends_once_its_caller_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    def waits(_r: object, _t: object, _i: object, _q: object, disconnect: Disconnect) -> str:
        ended.append(disconnect.event.wait(10))
        raise CallerLeft

    monkeypatch.setattr(direct_queries, "query_answer", waits)
    app, messages = made(auth="off", direct=True), iter([{"type": "http.request", "body": b'{"query": "x"}'}])
    # tests in a browser leave this thread an event loop that runs
    with start_blocking_portal() as portal:
        portal.call(_called, app, lambda: next(messages, {"type": "http.disconnect"}))
    assert ended == [True]


async def _called(app: FastAPI, received: Callable[[], dict[str, Any]]) -> None:
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/api/tools/search/{OWN}/query",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }

    async def receive() -> dict[str, Any]:
        return received()

    async def send(_: object) -> None:
        return None

    await app(scope, receive, send)
