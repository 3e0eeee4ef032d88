"""The fake rejects what Turbopuffer is documented to reject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer

ROWS = [{"id": "a", "vector": [1.0, 0.0], "name": "x", "text": "red fox"}, {"id": "b", "vector": [0.0, 1.0]}]
SCHEMA = {"name": "string", "text": {"type": "string", "full_text_search": True}}
FIRST = {"upsert_rows": ROWS, "distance_metric": "cosine_distance", "schema": SCHEMA}


@pytest.fixture
def fake() -> Iterator[FakeTurbopuffer]:
    with FakeTurbopuffer() as server:
        assert call(server, "", FIRST)[0] == 200
        yield server


def call(fake: FakeTurbopuffer, path: str, body: Any, method: str = "POST") -> tuple[int, dict[str, Any]]:
    raw = json.dumps(body).encode()
    return fake.answer(method, f"/v2/namespaces/space{path}", f"Bearer {fake.api_key}", raw)[:2]


def rows(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"upsert_rows": [{"id": "c", "vector": [1.0, 1.0]} | change for change in changes]}


REFUSED_WRITES = [
    rows({}, {}),
    rows({}) | {"deletes": ["c"]},
    rows({"id": "x" * 65}),
    rows({"id": 7}),
    rows({"vector": [1.0]}),
    rows({"vector": None}),
    rows({"vector": [0.0, 0.0]}),
    rows({"vector": [float("nan"), 1.0]}),
    rows({"name": "x" * 4097}),
    rows({"name": 7}),
    rows({"$name": "x"}),
    rows({"x" * 129: "x"}),
    rows({"weight": 0.5}),
    rows({}) | {"distance_metric": "euclidean_squared"},
    rows({}) | {"schema": {"name": "int"}},
    rows({}) | {"schema": {"name": {"type": "string", "filterible": True}}},
    {"patch_rows": [{"id": "a", "vector": [1.0, 0.0]}]},
    {"upsert_columns": {"id": ["c", "d"], "vector": [[1.0, 0.0]]}},
]


@pytest.mark.parametrize("body", REFUSED_WRITES)
def test_writes_beyond_the_limits_change_nothing(fake: FakeTurbopuffer, body: dict[str, Any]) -> None:
    before = dict(fake.namespaces["space"].rows)
    assert call(fake, "", body)[0] == 400
    assert fake.namespaces["space"].rows == before


def ask(**change: Any) -> dict[str, Any]:
    return {"rank_by": ["vector", "ANN", [1.0, 0.0]], "limit": 5} | change


REFUSED_QUERIES = [
    ask(limit=10_001),
    ask(limit=0),
    ask(rank_by=["vector", "ANN", [1.0]]),
    ask(rank_by=["name", "BM25", "x"]),
    ask(filters=["text", "Eq", "x"]),
    ask(filters=["colour", "Eq", "x"]),
    ask(filters=["name", "Eq", 7]),
    ask(filters=["name", "In", "x"]),
    {"queries": [ask()] * 17},
]


@pytest.mark.parametrize("body", REFUSED_QUERIES)
def test_queries_beyond_the_limits_are_refused(fake: FakeTurbopuffer, body: dict[str, Any]) -> None:
    assert call(fake, "/query", body)[0] == 400


@pytest.mark.parametrize("body", [[], {"upsert_rows": 7}, {"schema": {"x": {}}}])
def test_other_shapes_are_unprocessable(fake: FakeTurbopuffer, body: Any) -> None:
    assert call(fake, "", body)[0] == 422


def test_less_than_holds_for_missing_values(fake: FakeTurbopuffer) -> None:
    status, answer = call(fake, "/query", ask(filters=["name", "Lt", "a"]))
    assert (status, [row["id"] for row in answer["rows"]]) == (200, ["b"])


NEWER = ["version", "Lt", {"$ref_new": "version"}]


@pytest.mark.parametrize(("version", "name"), [(1, "x"), (2, "x"), (3, "y")])
def test_a_condition_decides_for_rows_that_are_there(fake: FakeTurbopuffer, version: int, name: str) -> None:
    call(fake, "", {"patch_rows": [{"id": "a", "version": 2}]})
    patches = [{"id": id_, "name": "y", "version": version} for id_ in ("a", "c")]
    _, answer = call(fake, "", {"patch_rows": patches, "patch_condition": NEWER})
    held = fake.namespaces["space"].rows
    assert (held["a"].values["name"], answer["rows_patched"], "c" in held) == (name, int(name == "y"), False)
    # a missing value is less than any, and an upsert inserts a row that does not exist
    changes = [{"id": id_, "name": "z", "version": version} for id_ in ("a", "b", "c")]
    _, answer = call(fake, "", rows(*changes) | {"upsert_condition": NEWER})
    names = [held[id_].values["name"] for id_ in "abc"]
    assert (names, answer["rows_upserted"]) == ([name, "z", "z"], 2)


@pytest.mark.parametrize("condition", [["colour", "Lt", 1], ["version", "Lt", "x"], ["version", "Lt"]])
def test_a_condition_is_checked_as_a_filter(fake: FakeTurbopuffer, condition: Any) -> None:
    call(fake, "", {"patch_rows": [{"id": "a", "version": 2}]})
    status, _ = call(fake, "", {"patch_rows": [{"id": "a", "version": 3}], "patch_condition": condition})
    assert (status >= 400, fake.namespaces["space"].rows["a"].values["version"]) == (True, 2)


def test_missing_namespaces_are_not_found_and_can_be_listed(fake: FakeTurbopuffer) -> None:
    assert call(fake, "", {}, "DELETE")[0] == 200
    for path, method in (("", "DELETE"), ("/query", "POST"), ("/metadata", "GET")):
        assert call(fake, path, {}, method)[0] == 404
    assert call(fake, "", {"deletes": ["a"], "create_namespace": False})[0] == 404
    key = f"Bearer {fake.api_key}"
    assert fake.answer("GET", "/v1/namespaces?prefix=sp", key, b"")[1]["namespaces"] == []
    assert fake.answer("GET", "/v1/namespaces", "Bearer other", b"")[0] == 401


def test_the_audit_says_whether_a_failed_write_was_applied(fake: FakeTurbopuffer) -> None:
    for applied in (False, True):
        fake.fail_next(503, applied=applied)
        assert call(fake, "", rows({"id": f"new-{applied}"}))[0] == 503
    audited = [(call_.status, call_.applied, call_.upserts) for call_ in fake.audit[1:]]
    assert audited == [(503, False, ["new-False"]), (503, True, ["new-True"])]
    assert set(fake.namespaces["space"].rows) == {"a", "b", "new-True"}
