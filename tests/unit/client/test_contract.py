"""The client has every operation, parameter, field and code of the service's contract, and no other."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args
from urllib.parse import unquote

import httpx
import pytest
from pydantic import BaseModel

from docs.openapi import Schema, description
from foldex_client import AsyncFoldex, Foldex, models
from foldex_client.errors import FoldexError
from schemas import errors as service_errors
from tests import coroutines
from tests.unit.test_docs import CODES_WITHOUT_CLASS, codes

#: Operations for Prometheus, and for a page that the stack's link opened.
NOT_FOR_CALLERS = {"GET /metrics", "POST /api/places", "POST /api/session"}
#: Names that differ from the contract's, because they take more than it, or do more.
WIRE_NAMES = {"tool": "tool_id", "tools": "tool_ids", "page_size": "limit"}
#: Parameters of the client alone.
OWN = {"wait", "until", "on_progress", "on_notes", "timeout"}
#: Ways to name what a tool indexes.
TARGETS: list[dict[str, Any]] = [
    {"path": "/a"}, {"bucket": "b", "prefix": "p/"}, {"node_id": "n", "json_pointer": "/j"},
    {"source": {"kind": "nodes", "node_id": "n"}},
]  # fmt: skip # a line each says nothing
#: Methods that share an operation, by the fields that only one of them sends.
SHARED = {
    "tools.create": {"dry_run"}, "tools.estimate": {"name", "reuse"},
    "tools.reindex": {"dry_run"}, "tools.estimate_reindex": {"allow_removals", "paths"},
}  # fmt: skip # a line an operation
#: Methods that ask another method's operation for an estimate.
ESTIMATES = {"tools.estimate", "tools.estimate_reindex"}
#: Parameters that exclude each other, by method; and those of which each value is sent in another way.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "tools.create": TARGETS,
    "tools.estimate": TARGETS,
    "tools.search": [{"query": "one"}, {"query": ["one", "two"]}],
    "search": [{"query": "one"}, {"query": ["one", "two"]}],
    "nodes.upload": [{"files": {"a.md": b"text"}}],
}  # fmt: skip # a line each says nothing
#: Codes that never reach a caller as the answer to a request.
INNER_CODES = {
    *("file_error", "lease_lost", "slice_over", "task_crashed", "plan_crashed", "slice_crashed"),
    *("tree_error", "too_many_leaves", "too_many_tokens", "missing_dependency", "tree_crashed"),
    *("llm_refused", "llm_unauthorized", "llm_unavailable", "llm_failed"),
}
#: Codes of errors that the client itself finds.
CLIENT_CODES = {
    *("connection_failed", "timed_out", "unexpected_answer", "wait_timed_out", "indexing_failed", "indexing_cancelled")
}


@dataclass
class Sent:
    """What was sent to one operation."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)


@dataclass
class Recorder:
    """Answers each operation with every field that the document describes, or with as few as it allows."""

    sparse: bool = False
    sent: dict[str, Sent] = field(default_factory=dict)
    answered: Any = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name, path = operation_of(request)
        sent = self.sent.setdefault(name, Sent())
        sent.path |= path
        sent.query |= dict(request.url.params)
        sent.body |= body_of(request)
        self.answered = answer(name, "200" if sent.body.get("dry_run") else "2", sparse=self.sparse)
        if "cursor" in request.url.params:
            self.answered["next_cursor"] = None
        if name.endswith("/events"):
            return httpx.Response(200, text=f"event: status\ndata: {json.dumps(self.answered)}\n\n")
        if isinstance(self.answered, bytes):
            return httpx.Response(200, content=self.answered)
        return httpx.Response(200, json=self.answered)


def operation_of(request: httpx.Request) -> tuple[str, dict[str, str]]:
    called = request.url.raw_path.decode().partition("?")[0]
    fits = [path for path in description()["paths"] if parameters_in(path).fullmatch(called)]
    assert fits, f"the contract has no {called}"
    path = min(fits, key=lambda each: each.count("{"))
    assert request.method.lower() in description()["paths"][path], f"{path} takes no {request.method}"
    values = parameters_in(path).fullmatch(called)
    assert values is not None
    return f"{request.method} {path}", {name: unquote(value) for name, value in values.groupdict().items()}


@cache
def parameters_in(path: str) -> re.Pattern[str]:
    """Matches a call of a path, with its parameters by name. `re` itself would forget that many patterns."""
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


def body_of(request: httpx.Request) -> dict[str, Any]:
    content = request.read()
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return dict(json.loads(content)) if content else {}
    return dict.fromkeys(re.findall(r'form-data; name="(\w+)"', content.decode()), content)


def operations() -> dict[str, Schema]:
    paths = description()["paths"]
    named = {f"{method.upper()} {path}": call for path, methods in paths.items() for method, call in methods.items()}
    return {name: call for name, call in named.items() if name not in NOT_FOR_CALLERS}


def resolved(schema: Schema) -> Schema:
    found: Schema = description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def answer(name: str, success: str = "2", *, sparse: bool) -> Any:
    if name.endswith("/events"):
        return sample({"$ref": "/Status"}, sparse=False)
    responses = operations()[name]["responses"]
    # what an operation usually answers comes first
    content = next(response for status, response in responses.items() if status.startswith(success))["content"]
    return sample(content["application/json"]["schema"], sparse=sparse) if "application/json" in content else b"bytes"


#: A value of each type, or of its format.
VALUES = {
    "uuid": "7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11", "date-time": "2026-01-01T00:00:00Z",
    "string": "word", "integer": 3, "number": 0.5, "boolean": True, "any": "any",
}  # fmt: skip # a line each says nothing


def sample(schema: Schema, *, sparse: bool) -> Any:
    """A value that a schema describes: with all it may hold, or sparse with as little as it must."""
    if "$ref" in schema:
        return sample(resolved(schema), sparse=sparse)
    if "anyOf" in schema or "oneOf" in schema:
        return sample_of_kinds(schema.get("anyOf") or schema["oneOf"], sparse=sparse)
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    if schema.get("type") == "array":
        return [sample(schema["items"], sparse=sparse)]
    if schema.get("type") == "object":
        return sample_of_object(schema, sparse=sparse)
    return VALUES[schema.get("format") or schema.get("type") or "any"]


def sample_of_kinds(kinds: list[Schema], *, sparse: bool) -> Any:
    """Null, or the first kind; of several objects one with the fields of all."""
    if {"type": "null"} in kinds and sparse:
        return None
    values = [sample(kind, sparse=sparse) for kind in kinds if kind != {"type": "null"}]
    return {k: v for value in values for k, v in value.items()} if isinstance(values[0], dict) else values[0]


def sample_of_object(schema: Schema, *, sparse: bool) -> Any:
    if "properties" in schema:
        fields = schema["properties"].items()
        required = schema.get("required", [])
        return {name: sample(each, sparse=sparse) for name, each in fields if name in required or not sparse}
    inner = schema["additionalProperties"]
    return {} if sparse else {"word": sample(inner if isinstance(inner, dict) else {}, sparse=sparse)}


def methods(client: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every public method of a client by its dotted name, except for those that close it."""
    for name in dir(client):
        if name.startswith("_") or name in {"close", "aclose"}:
            continue
        value = getattr(client, name)
        if callable(value):
            yield prefix + name, value
        else:
            yield from methods(value, f"{name}.")


NAMES = [name for name, _ in methods(Foldex("http://foldex.invalid"))]
#: `wait` polls the status, so that operation has two methods.
SINGLE = [name for name in NAMES if name != "tools.wait"]


def test_both_clients_have_the_same_methods() -> None:
    one, other = (dict(methods(kind("http://foldex.invalid"))) for kind in (Foldex, AsyncFoldex))
    assert {name: str(inspect.signature(method)) for name, method in one.items()} == {
        name: str(inspect.signature(method)) for name, method in other.items()
    }


def blocking(name: str, recorder: Recorder, arguments: dict[str, Any]) -> Any:
    with Foldex("http://foldex.invalid", transport=httpx.MockTransport(recorder)) as client:
        result = dict(methods(client))[name](**arguments)
        return list(result) if isinstance(result, Iterator) else result


def awaited(name: str, recorder: Recorder, arguments: dict[str, Any]) -> Any:
    async def run() -> Any:
        async with AsyncFoldex("http://foldex.invalid", transport=httpx.MockTransport(recorder)) as client:
            result = dict(methods(client))[name](**arguments)
            return [item async for item in result] if hasattr(result, "__aiter__") else await result

    return coroutines.run(run())


def parameters(name: str) -> dict[str, inspect.Parameter]:
    method = dict(methods(Foldex("http://foldex.invalid")))[name]
    named = {key: each for key, each in inspect.signature(method).parameters.items() if key not in OWN}
    keywords = named.pop("options", None)
    return {**named, **options(keywords)} if keywords else named


def options(keywords: inspect.Parameter) -> dict[str, inspect.Parameter]:
    """The options that a method takes as keywords, each of which may be left out."""
    kind = getattr(models, keywords.annotation.removeprefix("Unpack[").removesuffix("]"))
    return {key: inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None) for key in kind.__annotations__}


def arguments(name: str, *, only_required: bool = False) -> list[dict[str, Any]]:
    """For each variant of a method, an argument for each of its parameters that tells which one it is."""
    excluded = {key for variant in VARIANTS.get(name, []) for key in variant}
    empty = inspect.Parameter.empty
    given: dict[str, Any] = {
        key: ["tools"] if key == "tools" else key
        for key, each in parameters(name).items()
        if key not in excluded and (each.default is empty or not only_required)
    }
    if name == "tools.create":
        given["wait"] = False
    if "config" in given:
        given["config"] = {"types": ["config"]}
    return [{**given, **variant} for variant in VARIANTS.get(name, [{}])]


def called(name: str, given: dict[str, Any], run: Any = blocking, *, sparse: bool = False) -> tuple[str, Sent, Any]:
    recorder = Recorder(sparse=sparse)
    run(name, recorder, given)
    [(operation, sent)] = recorder.sent.items()
    return operation, sent, recorder.answered


def test_every_operation_has_exactly_one_method() -> None:
    reached = [called(name, arguments(name)[0])[0] for name in SINGLE if name not in ESTIMATES]
    assert sorted(reached) == sorted(operations())


@pytest.mark.parametrize("name", SINGLE)
def test_every_parameter_and_field_of_a_body_can_be_given(name: str) -> None:
    results = [called(name, given) for given in arguments(name)]
    call = operations()[results[0][0]]
    expected = {each["name"] for each in call.get("parameters", [])} | set(body_fields(call))
    sent = {key for _, one, _ in results for key in (*one.path, *one.query, *one.body)}
    assert sent == expected - SHARED.get(name, set())


@pytest.mark.parametrize("run", [blocking, awaited])
@pytest.mark.parametrize("name", SINGLE)
def test_what_is_given_is_sent_under_its_name(name: str, run: Any) -> None:
    for given in arguments(name):
        _, sent, _ = called(name, given, run)
        values = {**sent.path, **sent.query, **sent.body}
        wired = {WIRE_NAMES.get(key, key): value for key, value in given.items() if key not in OWN}
        if isinstance(wired.get("query"), list):
            wired["queries"] = wired.pop("query")
        moved = {"path", "bucket", "prefix", "source"} if name in SHARED else {"files"}
        # it is JSON in a form and in an address
        moved |= {"metadata", "acl"} if name == "nodes.upload" else {"metadata"} & sent.query.keys()
        assert {key: values[key] for key in wired.keys() - moved} == {k: v for k, v in wired.items() if k not in moved}


@pytest.mark.parametrize("name", SINGLE)
def test_what_the_contract_requires_cannot_be_left_out(name: str) -> None:
    for given in arguments(name, only_required=True):
        operation, sent, _ = called(name, given)
        call = operations()[operation]
        required = {each["name"] for each in call.get("parameters", []) if each.get("required")}
        required |= {field for field, needed in body_fields(call).items() if needed}
        assert required <= {*sent.path, *sent.query, *sent.body}


def body_fields(call: Schema) -> dict[str, bool]:
    """The fields of an operation's body, and whether each is required."""
    contents: list[Schema] = list(call.get("requestBody", {}).get("content", {}).values())
    schema: Schema = contents[0]["schema"] if contents else {}
    for each in schema.get("anyOf", [schema]):
        if "$ref" in each:
            schema = resolved(each)
    return {name: name in schema.get("required", []) for name in schema.get("properties", {})}


@pytest.mark.parametrize("run", [blocking, awaited])
@pytest.mark.parametrize(("name", "unknown"), [("tools.search", "index_missing"), ("search", "beam"), ("search", "k")])
def test_an_option_that_a_search_does_not_take_is_refused(name: str, unknown: str, run: Any) -> None:
    recorder = Recorder()
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'"):
        run(name, recorder, {**arguments(name)[0], unknown: 1})
    assert not recorder.sent


def test_a_source_is_sent_as_the_contract_describes_it() -> None:
    bodies = [called("tools.create", given)[1].body for given in arguments("tools.create")]
    assert [body.get("source") for body in bodies] == [
        {"kind": "local", "path": "/a"},
        {"kind": "s3", "bucket": "b", "prefix": "p/"},
        None,
        {"kind": "nodes", "node_id": "n"},
    ]


@pytest.mark.parametrize("name", SINGLE)
def test_every_field_of_an_answer_is_in_its_model(name: str) -> None:
    recorder = Recorder()
    result = blocking(name, recorder, arguments(name)[0])
    expected = recorder.answered
    if isinstance(result, list):
        result = result[0]
        listed = expected.get("items") if isinstance(expected, dict) else expected
        expected = listed[0] if listed else expected
    if result is None:
        assert recorder.sent.popitem()[0].startswith("DELETE ")
    else:
        assert_same_fields(result, expected)


def assert_same_fields(value: Any, expected: Any) -> None:
    if isinstance(value, BaseModel):
        assert set(type(value).model_fields) == expected.keys(), type(value)
        for name in type(value).model_fields:
            assert_same_fields(getattr(value, name), expected[name])
    elif isinstance(value, list):
        for one, other in zip(value, expected, strict=True):
            assert_same_fields(one, other)


@pytest.mark.parametrize("name", SINGLE)
def test_an_answer_with_as_little_as_the_contract_allows_is_read(name: str) -> None:
    called(name, arguments(name)[0], sparse=True)


@pytest.mark.parametrize("name", ["Filters", "Context", "ToolConfig"])
def test_objects_in_bodies_have_the_fields_of_the_contract(name: str) -> None:
    model = getattr(models, name)
    fields = model.model_fields if issubclass(model, BaseModel) else model.__annotations__
    assert set(fields) == set(description()["components"]["schemas"][name]["properties"])


@pytest.mark.parametrize(
    ("model", "field", "words"),
    [("Query", "mode", models.Mode), ("Query", "rerank", models.Rerank), ("Query", "refresh", models.Refresh)],
)
def test_words_in_bodies_are_those_of_the_contract(model: str, field: str, words: Any) -> None:
    schema = description()["components"]["schemas"][model]["properties"][field]
    [allowed] = [kind["enum"] for kind in schema.get("anyOf", [schema]) if "enum" in kind]
    assert allowed == [*get_args(words)]


def test_every_code_that_a_caller_can_meet_has_a_class_and_no_other() -> None:
    known = {*codes(service_errors.FoldexError.__subclasses__()), *CODES_WITHOUT_CLASS} - INNER_CODES
    assert {*FoldexError.by_code} == known | CLIENT_CODES
