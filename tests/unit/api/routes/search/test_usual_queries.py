"""Queries without FastAPI's dependencies are answered, logged and counted as those with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
import structlog
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI, Request, Response
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import DataError, OperationalError
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from api.http.disconnect import CallerLeft, Disconnect
from api.http.lookup_cache import LookupCache
from api.main import create_app
from api.routes.search import queries
from schemas.errors import EmbeddingUnavailable, NoTree, SearchBusy
from schemas.queries.search import Query
from schemas.scopes import allowed
from worker.settings import LOCAL_MODEL, Settings
from worker.state.access import keys
from worker.state.access.keys import ValidKey
from worker.state.index.tools import Index

NOWHERE = "postgresql://127.0.0.1:1/none"
OWN, FOREIGN = uuid4(), uuid4()
READER = "fx-reader"
KEYS = {"fx-own": "mine", "fx-other": "other", READER: "mine"}
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
Outcome = tuple[int, bytes, dict[str, str], list[dict[str, Any]], Counter[str]]


def told(_resources: object, tool_id: UUID, index: Any, query: Query, _: Disconnect, on_step: object = None) -> str:
    """Instead of an answer: what was asked, and in which of both ways steps are heard."""
    for text in query.texts:
        if text in RAISED:
            raise RAISED[text]
    asked = {name: repr(getattr(query, name)) for name in sorted(query.model_fields_set)}
    return json.dumps({"tool": str(tool_id), "project": index.project_id, "asked": asked})


def index_of(project: str) -> Index:
    settings: Any = {
        "embedder": {"model": LOCAL_MODEL, "dimensions": 384},
        "chunks": {"size": 64, "overlap": 0},
        "max_file_bytes": 9,
    }
    source: Any = {"kind": "local", "path": "/x"}
    return Index(uuid4(), project, source, None, settings, "lancedb", "store", "n", 1)


def made(*, auth: str) -> FastAPI:
    app = create_app(Settings.model_validate({"database_url": NOWHERE, "auth": auth}))
    indexes: dict[UUID, Any] = {
        OWN: index_of("mine"),
        FOREIGN: index_of("other"),
    }
    opened = {
        keys.hashed(key): ValidKey(uuid4(), project, allowed(["search"] if key == READER else ["write"]))
        for key, project in KEYS.items()
    }
    caches = app.state.lookup_caches
    caches.indexes, caches.keys = LookupCache(indexes.get), LookupCache(opened.get)
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


def counted(client: TestClient) -> Counter[str]:
    """The number of queries by what metrics say of them."""
    lines = [
        line.rpartition(" ")
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("foldex_requests_total") and "/metrics" not in line
    ]
    return Counter({labels: int(float(number)) for labels, _, number in lines})


@pytest.fixture(scope="module")
def apps() -> Iterator[dict[str, FastAPI]]:
    """An application for each way to authorize."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "query_answer", told)
        yield {auth: made(auth=auth) for auth in ("on", "off")}


def outcomes(app: FastAPI, sent: Sent) -> tuple[Outcome, Outcome]:
    """What a request gets, and what it would get with FastAPI's dependencies."""
    with pytest.MonkeyPatch.context() as patch:
        usual = outcome(app, sent)
        patch.setattr(queries, "_usual_query", lambda _: None)
        return usual, outcome(app, sent)


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
            "refresh": st.sampled_from(["none", "none", "wait"]),
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
                ["Bearer fx-own", f"Bearer {READER}", "Bearer fx-other", "Bearer x", "Basic x"]
            ),
            "origin": st.sampled_from(["http://127.0.0.1", "http://elsewhere"]),
        },
    )
    return st.builds(Sent, paths, bodies(), said, st.sampled_from(["POST"] * 6 + ["PUT", "GET"]))


@settings(max_examples=60)
@given(requests(), st.sampled_from(["on", "off"]))
def test_the_answer_is_that_of_fastapi(apps: dict[str, FastAPI], sent: Sent, auth: str) -> None:
    usual, plain = outcomes(apps[auth], sent)
    assert usual == plain


@pytest.mark.parametrize("text", sorted(RAISED))
def test_errors_are_answered_as_by_fastapi(apps: dict[str, FastAPI], text: str) -> None:
    sent = Sent(
        f"/api/tools/search/{OWN}/query", json.dumps({"query": text}).encode(), {"content-type": "application/json"}
    )
    usual, plain = outcomes(apps["off"], sent)
    assert usual == plain


@pytest.mark.parametrize("key", ["fx-own", READER])
def test_a_search_that_may_start_a_run_needs_write(apps: dict[str, FastAPI], key: str) -> None:
    for refresh in ("if_stale", "wait", "none"):
        body = json.dumps({"query": "words", "refresh": refresh}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        usual, plain = outcomes(apps["on"], Sent(f"/api/tools/search/{OWN}/query", body, headers))
        assert usual == plain
        assert (usual[0] == 403) == (key == READER and refresh != "none")


def test_only_the_usual_query_does_without_fastapi(apps: dict[str, FastAPI], monkeypatch: pytest.MonkeyPatch) -> None:
    answer, answered = queries._answer, list[Query]()

    async def noted(request: Request, query: Query) -> Response:
        answered.append(query)
        return await answer(request, query)

    monkeypatch.setattr(queries, "_answer", noted)
    path = f"/api/tools/search/{OWN}/query"
    for headers in ({"content-type": "application/json"}, {"content-type": "text/json"}):
        outcome(apps["off"], Sent(path, b'{"query": "words"}', headers))
    assert [query.query for query in answered] == ["words"]


def test_a_search_ends_once_its_caller_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    def waits(_r: object, _t: object, _i: object, _q: object, disconnect: Disconnect) -> str:
        ended.append(disconnect.event.wait(10))
        raise CallerLeft

    monkeypatch.setattr(queries, "query_answer", waits)
    app, messages = made(auth="off"), iter([{"type": "http.request", "body": b'{"query": "x"}'}])
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
