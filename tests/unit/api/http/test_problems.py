"""Answers to requests that are not valid."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field

from api.http import problems
from schemas.content.source import AnySource
from schemas.errors import (
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    FoldexError,
    RangeNotSatisfiable,
    Unauthorized,
)


class Body(BaseModel):
    numbers: list[int] = Field(default_factory=list)
    choices: dict[str, int] = Field(default_factory=dict)
    source: AnySource | None = None


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    problems.install(app)

    @app.post("/")
    def take(body: Body) -> None:
        pass

    return TestClient(app)


@pytest.mark.parametrize(("wrong", "more"), [(10, ""), (11, "; 1 more"), (5_000, "; 4,990 more")])
def test_the_first_of_many_errors_are_told(client: TestClient, wrong: int, more: str) -> None:
    problem = client.post("/", json={"numbers": ["a"] * wrong}).json()
    assert len(problem["errors"]) == 10
    assert problem["detail"].count("numbers.") == 10
    assert problem["detail"].endswith(
        f"unable to parse string as an integer{more}. See /docs for what this call accepts."
    )


@pytest.mark.parametrize(("length", "is_whole"), [(80, True), (100_000, False)])
def test_a_long_name_of_a_field_is_cut(client: TestClient, length: int, is_whole: bool) -> None:
    problem = client.post("/", json={"choices": {"x" * length: "a"}}).json()
    assert ("x" * length in problem["detail"]) == is_whole
    assert ("x" * length in problem["errors"][0]["field"]) == is_whole
    assert len(problem["detail"]) < 700


def test_a_source_without_a_kind_is_told_all_kinds(client: TestClient) -> None:
    problem = client.post("/", json={"source": {"path": "/srv/docs"}}).json()
    assert problem["detail"].startswith("source: `kind` is missing; it is one of local, s3, nodes.")
    assert client.post("/", json={"source": {"kind": "local", "path": "/srv/docs"}}).status_code == 200
    assert "'local', 's3', 'nodes'" in client.post("/", json={"source": {"kind": "disk"}}).json()["detail"]


@pytest.mark.parametrize("content", [None, b'{"numbers": [1]}'])
def test_a_body_that_is_not_sent_as_json_is_told_the_header(client: TestClient, content: bytes | None) -> None:
    assert "Content-Type: application/json" in client.post("/", content=content).json()["detail"]
    assert "Content-Type: application/json" in client.post("/", json=[]).json()["detail"]
    assert "Content-Type" not in client.post("/", json={"numbers": ["a"]}).json()["detail"]


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (EmbeddingUnavailable("", retry_after=2.1), {"retry-after": "3"}),
        (EmbeddingUnavailable("", retry_after=2.0), {"retry-after": "2"}),
        (EmbeddingUnavailable(""), {"retry-after": "5"}),
        (EmbeddingUnauthorized(""), {}),
        (Unauthorized(""), {"www-authenticate": "Bearer"}),
        (RangeNotSatisfiable(7), {"content-range": "bytes */7"}),
    ],
)
def test_the_headers_of_an_error_say_what_helps(error: FoldexError, headers: dict[str, str]) -> None:
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    def fail() -> None:
        raise error

    answer = TestClient(app).get("/")
    assert (answer.status_code, answer.json()["code"]) == (error.status, error.code)
    told = ("retry-after", "www-authenticate", "content-range")
    assert {name: answer.headers[name] for name in told if name in answer.headers} == headers


@pytest.mark.parametrize(("length", "is_whole"), [(300, True), (301, False)])
def test_the_name_of_a_field_is_cut_at_so_many_characters(client: TestClient, length: int, is_whole: bool) -> None:
    (error,) = client.post("/", json={"choices": {"x" * (length - len("choices.")): "a"}}).json()["errors"]
    assert error["field"].endswith(" …") is not is_whole


def test_a_wrong_method_is_told_all_that_the_address_takes() -> None:
    app, router = FastAPI(), APIRouter()
    problems.install(app)
    for path, method in (("/things", "GET"), ("/things", "POST"), ("/things/{name}", "DELETE")):
        router.add_api_route(path, lambda: None, methods=[method])
    app.include_router(router)
    answer = TestClient(app).put("/things")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, OPTIONS, POST")
    assert "send GET, OPTIONS, POST" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/things", "GET, OPTIONS, POST"),
        ("/things/all", "GET, OPTIONS"),
        ("/things/one", "DELETE, OPTIONS, PATCH"),
        ("/files/a.css", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_of_an_address_are_the_methods_of_its_own_path(path: str, allowed: str) -> None:
    app, router = FastAPI(), APIRouter()
    problems.install(app)
    for at, method in (("/things", "GET"), ("/things", "POST"), ("/things/all", "GET")):
        router.add_api_route(at, lambda: None, methods=[method])
    for method in ("PATCH", "DELETE"):
        router.add_api_route("/things/{name}", lambda name: name, methods=[method])
    app.include_router(router)
    app.add_api_route("/files/{name}", lambda name: name, methods=["GET", "HEAD"])
    answer = TestClient(app).options(path)
    assert (answer.status_code, answer.headers["Allow"], answer.content) == (204, allowed, b"")
    assert TestClient(app).options("/nothing").status_code == 404
