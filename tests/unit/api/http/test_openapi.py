"""The OpenAPI document has no gap: access, errors, descriptions, and examples that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate

from api.http.scopes import NEEDED
from api.main import create_app
from docs.openapi import Schema, description
from schemas import errors
from schemas.errors import FoldexError
from tests.unit.test_docs import codes
from worker.settings import Settings

#: Codes that never answer a request.
INNER_CODES = {
    "internal", "embedding_error", "rerank_error", "rerank_unavailable", "store_error", "file_error",
    "file_too_slow", "folder_elsewhere",
    "lease_lost", "slice_over", "task_crashed", "plan_crashed", "slice_crashed", "tree_crashed",
    "llm_error", "llm_refused", "llm_unauthorized", "llm_unavailable", "llm_failed",
    "tree_error", "too_many_leaves", "too_many_tokens", "missing_dependency",
}  # fmt: skip # a line each says nothing


def operations() -> dict[str, Schema]:
    paths = description()["paths"]
    return {f"{method.upper()} {path}": call for path, methods in paths.items() for method, call in methods.items()}


OPERATIONS = sorted(operations())
SCHEMAS = sorted(description()["components"]["schemas"])
#: Models of requests, and of their parts.
BODIES = ["Across", "Context", "Filters", "Grep", "NewNode", "NewTool", "NodePatch", "Query", "ToolConfig", "ToolPatch"]


def invalid(value: Any, schema: Schema) -> list[str]:
    """What is wrong with a value."""
    whole = {**schema, "components": description()["components"]}
    return [each.message for each in Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(value)]


def statuses(call: Schema) -> set[int]:
    return {int(status) for status in call["responses"]}


def problems(call: Schema) -> dict[str, Schema]:
    """The example of each error that an operation states, by code."""
    contents = (answer["content"] for status, answer in call["responses"].items() if status >= "4")
    examples = (content["application/problem+json"]["examples"] for content in contents)
    return {code: each["value"] for by_code in examples for code, each in by_code.items()}


def stated_codes(call: Schema) -> set[str]:
    return {*problems(call)}


def test_the_document_is_valid() -> None:
    validate(description())


def test_every_list_bounds_its_pages_on_both_sides() -> None:
    lists = 0
    for name, call in operations().items():
        given = {parameter["name"]: parameter["schema"] for parameter in call.get("parameters", [])}
        if "cursor" in given:
            lists += 1
            assert (given["limit"]["minimum"], given["limit"]["maximum"]) == (1, 1000), name
    assert lists >= 8


def test_ids_are_short_and_unique() -> None:
    ids = [call["operationId"] for call in operations().values()]
    assert len(set(ids)) == len(ids)
    assert [each for each in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)?", each)] == []
    assert {"create_tool", "query_tool", "grep_tool", "get_node"} <= set(ids)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_parameter_has_a_description_and_those_of_the_path_an_example(name: str) -> None:
    for each in operations()[name].get("parameters", []):
        assert each.get("description", "").endswith("."), each["name"]
        if each["in"] == "path":
            assert each["schema"]["examples"], each["name"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_object_and_field_has_a_description(name: str) -> None:
    schema = description()["components"]["schemas"][name]
    assert schema.get("description"), name
    assert [field for field, each in schema.get("properties", {}).items() if not each.get("description")] == []


@pytest.mark.parametrize("name", BODIES)
def test_descriptions_of_optional_fields_tell_what_null_means(name: str) -> None:
    for field, each in description()["components"]["schemas"][name]["properties"].items():
        if {"type": "null"} in each.get("anyOf", []):
            said = each["description"].lower()
            assert re.search(r"null|default|omit|instead|either", said), field


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_example_of_a_field_or_an_object_is_valid(name: str) -> None:
    schema = description()["components"]["schemas"][name]
    for part in (schema, *schema.get("properties", {}).values()):
        for value in part.get("examples", []):
            assert invalid(value, part) == [], (value, part)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_request_has_valid_examples(name: str) -> None:
    for content in operations()[name].get("requestBody", {}).get("content", {}).values():
        assert content["examples"]
        for each in content["examples"].values():
            assert invalid(each["value"], content["schema"]) == [], each["value"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_has_a_valid_example(name: str) -> None:
    for content in contents_of_answers(operations()[name]):
        examples = [content["example"]] if "example" in content else [e["value"] for e in content["examples"].values()]
        assert examples
        assert [(value, wrong) for value in examples if (wrong := invalid(value, content["schema"]))] == []


def contents_of_answers(call: Schema) -> Iterator[Schema]:
    for status, answer in call["responses"].items():
        assert answer["description"]
        assert answer["content"] if status != "304" else "content" not in answer
        yield from answer.get("content", {}).values()


@pytest.mark.parametrize("name", OPERATIONS)
def test_errors_are_problems_with_their_codes(name: str) -> None:
    call = operations()[name]
    for status, answer in call["responses"].items():
        if status >= "4":
            assert set(answer["content"]) == {"application/problem+json"}
            assert answer["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
            for code, each in answer["content"]["application/problem+json"]["examples"].items():
                assert (each["value"]["status"], each["value"]["code"]) == (int(status), code)
    assert "x-raises" not in call


@pytest.mark.parametrize("name", OPERATIONS)
def test_statuses_follow_from_what_an_operation_takes(name: str) -> None:
    call, method = operations()[name], name.split(maxsplit=1)[0]
    if " /api/" in name:
        needed = NEEDED[call["operationId"]]
        assert call["security"] == [{"bearer": [needed]}]
        assert call["description"].endswith(f"Needs the scope `{needed}`.")
        assert {"unauthorized", "scope_missing"} <= stated_codes(call)
        assert {401, 403, 500, 503} <= statuses(call)
        assert (413 in statuses(call)) == (method != "GET")
    else:
        assert "security" not in call
        assert not {401, 403} & statuses(call)
    body_types = call.get("requestBody", {}).get("content", {})
    assert ("invalid_json" in stated_codes(call)) == ("application/json" in body_types)
    assert 422 in statuses(call) or not (call.get("parameters") or call.get("requestBody"))


def test_codes_of_some_operations() -> None:
    named = {call["operationId"]: stated_codes(call) for call in operations().values()}
    assert "conflict" in named["create_node"] & named["upload_files"]
    assert {"embedding_unavailable", "search_busy"} <= named["query_tool"] & named["search_project"]
    assert {"folder_gone", "model_not_allowed"} <= named["create_tool"] & named["patch_tool"]
    assert "conflict" not in named["get_tool"]
    without_postgres = {"internal", "headers_too_large", "url_too_long", "too_many_connections"}
    assert named["healthz"] == without_postgres
    assert named["metrics"] == {*without_postgres, "project_busy", "server_busy"}


def test_every_code_that_a_caller_can_meet_is_stated_and_no_other() -> None:
    stated = {code for call in operations().values() for code in stated_codes(call)}
    without_class = {"invalid_json", "internal", "database_unavailable"}
    assert stated == {*codes(FoldexError.__subclasses__())} - INNER_CODES | without_class


def test_the_examples_of_errors_are_messages_with_a_remedy() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, FoldexError)]
    messages = {kind.code: vars(kind).get("example") for kind in kinds if kind is not FoldexError}
    assert len(messages) > 20
    for call in operations().values():
        for code, problem in problems(call).items():
            assert problem["detail"]
            assert problem["detail"] == messages.get(code, problem["detail"])


def test_a_key_is_optional_without_authentication() -> None:
    app = create_app(Settings(database_url="postgresql://nowhere.invalid/none", auth="off"))
    assert app.openapi()["paths"]["/api/search"]["post"]["security"] == [{"bearer": ["search"]}, {}]
    assert app.openapi()["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_each_tag_is_described_and_has_calls() -> None:
    described = {tag["name"]: tag["description"] for tag in description()["tags"]}
    assert all(described.values())
    assert {tag for call in operations().values() for tag in call["tags"]} == set(described)


def test_the_document_says_where_the_service_is() -> None:
    assert [server["url"] for server in description()["servers"]] == ["/"]
