"""Completes the OpenAPI document that FastAPI makes: access, errors, and an example of each request and answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from api.http.described_errors import OpenApi, add_errors
from api.http.scopes import NEEDED
from schemas.problem import Problem

_PLACE = "#/components/schemas/"
#: Models that FastAPI adds for its own errors, which `problems` replaces.
_UNUSED = ("HTTPValidationError", "ValidationError")
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key from `foldex keys create`, with the scope that the call needs, or a token of OIDC_ISSUER. "
    "Not needed with AUTH=off.",
}
#: The purpose of the calls with each tag.
TAGS = {
    "search tools": "Make, change, run and watch search tools over folders, and read their files.",
    "search": "Find text in one tool, in several, or at paths: by meaning, by words, or by a pattern.",
    "symbols": "Find definitions, references and callers in code.",
    "indexers": "What can be built over a folder.",
    "summary trees": "Build and read trees of summaries over a folder.",
    "nodes": "The project's own content: folders, files and uploads.",
    "projects": "Projects as a whole, their keys, and what a key may do.",
    "models": "Models that are configured or allowed.",
    "health": "Whether the service runs, and its metrics.",
}


def short_id(route: APIRoute) -> str:
    """An operation's id: the name of its function."""
    return route.name


def install(app: FastAPI, *, is_open: bool) -> None:
    """Complete the document when it is first requested. With `is_open` a key is optional."""
    make = app.openapi

    def openapi() -> OpenApi:
        if app.openapi_schema is None:
            _complete(make(), is_open=is_open)
        return make()

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI documents this way to extend the document


def _complete(document: OpenApi, *, is_open: bool) -> None:
    document["servers"] = [{"url": "/", "description": "The service that this document comes from."}]
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    components = document["components"]
    schemas = components["schemas"]
    for name in _UNUSED:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=f"{_PLACE}{{model}}")
    schemas |= {**problem.pop("$defs"), Problem.__name__: problem}
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"bearer": _BEARER}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path.startswith("/api/"):
                needed = NEEDED[operation["operationId"]]
                operation["security"] = [{"bearer": [needed]}, *([{}] if is_open else [])]
                operation["description"] = f"{operation.get('description', '')}\n\nNeeds the scope `{needed}`.".strip()
            add_errors(method, path, operation)
            _add_examples(operation, schemas)


def _add_examples(operation: OpenApi, schemas: OpenApi) -> None:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        values = list(_examples_of(content["schema"], schemas))
        content["examples"] = {f"example {number}": {"value": value} for number, value in enumerate(values, 1)}
    for status, response in operation["responses"].items():
        for content in response.get("content", {}).values() if status.startswith("2") else ():
            content.setdefault("example", example(content["schema"], schemas))


def _examples_of(schema: OpenApi, schemas: OpenApi) -> Iterator[Any]:
    """All examples of a request's model, which may be optional."""
    for choice in schema.get("anyOf", [schema]):
        model = schemas[choice["$ref"].removeprefix(_PLACE)] if "$ref" in choice else choice
        if model.get("type") != "null":
            yield from model.get("examples") or [example(model, schemas)]


def example(schema: OpenApi, schemas: OpenApi) -> Any:
    """The schema's own example, or one made of its parts'. A part without an example is null, and a test finds that."""
    value: Any
    match schema:
        case {"examples": [value, *_]} | {"const": value} | {"default": value} | {"enum": [value, *_]}:
            pass
        case {"$ref": place}:
            value = example(schemas[place.removeprefix(_PLACE)], schemas)
        case {"anyOf": [choice, *_]} | {"oneOf": [choice, *_]}:
            value = example(choice, schemas)
        case {"type": "array"}:
            value = [example(schema["items"], schemas)]
        case {"additionalProperties": values, "propertyNames": names}:
            value = {example(names, schemas): example(values, schemas)}
        case {"properties": properties}:
            value = {name: example(field, schemas) for name, field in properties.items()}
        case _:
            value = False if schema.get("type") == "boolean" else None
    return value
