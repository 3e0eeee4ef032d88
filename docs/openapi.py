"""The HTTP calls as Markdown, from the description that the API gives of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from api.main import create_app
from worker.settings import Settings

Schema = dict[str, Any]

_OBJECT = "#/components/schemas/"
#: Values of parameters in the examples.
_VALUES = {"project_id": "project-1", "name": "parse_header", "parent_id": "folder-001"}

#: Codes that the page explains once for all calls.
_COMMON_ERRORS = {
    "unauthorized", "token_invalid", "token_unusable", "issuer_unavailable",
    "scope_missing", "auth_required", "internal", "database_unavailable", "locked", "disk_full",
    "project_busy", "server_busy",
    "cross_site", "body_too_slow", "too_large", "invalid_json", "invalid_request", "not_found",
    "headers_too_large", "url_too_long", "too_many_connections", "too_many_values", "bodies_busy",
}  # fmt: skip # a line each says nothing


@cache
def description() -> Schema:
    """OpenAPI of an application that never connects to anything."""
    document: Schema = create_app(Settings(database_url="postgresql://nowhere.invalid/none")).openapi()
    return document


def http_calls() -> Iterator[str]:
    """A section for each call, by topic, then one for each object that calls take or give."""
    document = description()
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            by_tag.setdefault(call["tags"][0], []).extend(_call(method.upper(), path, call))
    for tag, lines in by_tag.items():
        yield f"## {tag.capitalize()}\n"
        yield from lines
    yield "## Objects\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _object(name, schema)


def _call(method: str, path: str, call: Schema) -> Iterator[str]:
    yield f"### `{method} {path}`\n"
    yield call["description"] + "\n"
    parameters = [each for each in call.get("parameters", []) if each["in"] == "query"]
    if parameters:
        yield "| parameter | type | default | meaning |"
        yield "|---|---|---|---|"
        for each in parameters:
            schema = each["schema"]
            yield _row(each["name"], schema, each.get("description", ""), is_required=each.get("required", False))
        yield ""
    body = _schema(call.get("requestBody", {}))
    if body:
        yield f"Body: {_type(body)}.\n" if "properties" not in body else "Body: `multipart/form-data`.\n"
        if "properties" in body:
            yield from _table(body)
    yield from _answers(call["responses"])
    yield from _errors(call["responses"])
    yield from _examples(method, path, call, body)


def _answers(responses: Schema) -> Iterator[str]:
    for status, response in responses.items():
        if status.startswith("2"):
            schema = _schema(response)
            yield f"Answer: {status}{', ' + _type(schema) if schema else ''}.\n"


def _errors(responses: Schema) -> Iterator[str]:
    """The errors that not every call has."""
    problems = ((status, response["content"]) for status, response in responses.items() if status >= "4")
    codes = ((status, code) for status, content in problems for code in content["application/problem+json"]["examples"])
    own = [f"{status} `{code}`" for status, code in codes if code not in _COMMON_ERRORS]
    if own:
        yield f"Errors: {', '.join(own)}.\n"


def _schema(part: Schema) -> Schema:
    """Of what a request or an answer holds; empty if it holds nothing that is described."""
    contents: list[Schema] = list(part.get("content", {}).values())
    schema: Schema = contents[0].get("schema", {}) if contents else {}
    return schema


def _examples(method: str, path: str, call: Schema, body: Schema) -> Iterator[str]:
    url = f'"$API{_with_values(path)}{_query(call)}"'
    yield "```bash"
    if not body:
        yield f"curl -sS {'' if method == 'GET' else f'-X {method} '}{url}"
    elif "properties" in body:
        yield f"curl -sS {url} -F parent_id=folder-001 -F files=@setup.md -F 'files=@a.pdf;filename=guide/a.pdf'"
    else:
        for example in _named_examples(body):
            given = json.dumps(example, ensure_ascii=False)
            yield f"curl -sS -X {method} {url} -H 'content-type: application/json' -d '{given}'"
    yield "```\n"


def _named_examples(body: Schema) -> list[Any]:
    """Those that the body's model gives."""
    for each in body.get("anyOf", [body]):
        if "$ref" in each:
            model = description()["components"]["schemas"][each["$ref"].removeprefix(_OBJECT)]
            examples: list[Any] = model["examples"]
            return examples
    raise ValueError(f"no model describes this body: {body}")


def _with_values(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: _VALUES.get(name[1], f"${name[1].upper()}"), path)


def _query(call: Schema) -> str:
    required = [each["name"] for each in call.get("parameters", []) if each["in"] == "query" and each.get("required")]
    return "?" + "&".join(f"{name}={_VALUES[name]}" for name in required) if required else ""


def _object(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield schema["description"] + "\n"
    if "enum" in schema:
        yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.\n"
    if schema.get("properties"):
        yield from _table(schema)


def _table(schema: Schema) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in schema["properties"].items():
        yield _row(name, field, field.get("description", ""), is_required=name in schema.get("required", []))
    yield ""


def _row(name: str, schema: Schema, meaning: str, *, is_required: bool) -> str:
    if "default" in schema:
        default = "null" if schema["default"] is None else f"`{json.dumps(schema['default'])}`"
    else:
        default = "required" if is_required else ""
    text = " ".join(meaning.split()).replace("|", "\\|")
    return f"| `{name}` | {_type(schema)} | {default} | {text} |"


def _type(schema: Schema) -> str:
    """In a few words, with a link to each object's own section."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(_type(each) for each in choices)
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum") or [schema["const"]])
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_OBJECT)
        return f"[{name}](#{name.lower()})"
    values = schema.get("items") or schema.get("additionalProperties")
    if isinstance(values, dict):
        return f"{'list' if 'items' in schema else 'object'} of {_type(values)}"
    return str(schema.get("format") or schema.get("type") or "any value") + _bounds(schema)


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least:g} to {most:,.0f}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']:,} characters"
    return f", at least {least:g}" if least is not None else ""
