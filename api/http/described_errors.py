"""Describes in OpenAPI which errors each operation answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from schemas import errors
from schemas.errors import FoldexError
from schemas.problem import Problem

#: A part of the OpenAPI document, as FastAPI takes and makes it.
OpenApi = dict[str, Any]

#: Where an operation names its own errors until `add_errors` describes them.
_RAISES = "x-raises"
_PROBLEM = {"$ref": f"#/components/schemas/{Problem.__name__}"}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which a retry can help.",
        "schema": {"type": "integer", "examples": [5]},
    }
}
#: Codes of errors that say how to authenticate.
_CHALLENGED = (errors.Unauthorized.code, errors.ScopeMissing.code)
_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string", "examples": ["Bearer"]},
    }
}


@dataclass(frozen=True, slots=True)
class DescribedError:
    """An error as a caller sees it. `meaning` is one sentence about all of its kind, `detail` is of one instance."""

    code: str
    status: int
    meaning: str
    detail: str
    retryable: bool = False


INVALID_JSON = DescribedError(
    "invalid_json",
    HTTPStatus.BAD_REQUEST,
    "The body is not valid JSON.",
    "The body is not valid JSON; check its quotes and commas.",
)
INTERNAL = DescribedError(
    "internal",
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "An unexpected error.",
    "An internal error occurred; see the log of the API for details.",
)
DATABASE_UNAVAILABLE = DescribedError(
    "database_unavailable",
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The database does not answer.",
    "The database does not answer; try again shortly, or check DATABASE_URL.",
    retryable=True,
)


def raises(*kinds: type[FoldexError]) -> OpenApi:
    """For `openapi_extra` of a route: its errors besides those that every operation of its shape has."""
    return {_RAISES: [kind.__name__ for kind in kinds]}


def add_errors(method: str, path: str, operation: OpenApi) -> None:
    """Describe all errors that an operation answers, in place of what FastAPI assumes."""
    own = [_fault(getattr(errors, name)) for name in operation.pop(_RAISES, [])]
    operation["responses"] = {
        status: response for status, response in operation["responses"].items() if status.startswith(("2", "3"))
    }
    faults = {fault.code: fault for fault in (*_usual(method, path, operation), *own)}
    for status in sorted({fault.status for fault in faults.values()}):
        operation["responses"][str(status)] = _response([each for each in faults.values() if each.status == status])


def _usual(method: str, path: str, operation: OpenApi) -> Iterator[DescribedError]:
    """The errors that follow from what an operation accepts."""
    yield INTERNAL
    yield _fault(errors.HeadersTooLarge)
    yield _fault(errors.UrlTooLong)
    yield _fault(errors.TooManyConnections)
    if path == "/healthz":  # it waits for nothing
        return
    yield from map(_fault, (errors.ProjectBusy, errors.ServerBusy))
    if path == "/metrics":  # it answers without Postgres
        return
    yield DATABASE_UNAVAILABLE
    yield from map(_fault, (errors.SchemaBehind, errors.ReleaseBehind))
    yield _fault(errors.Locked)
    yield _fault(errors.DiskFull)
    if not path.startswith("/api/"):
        return
    body_types = operation.get("requestBody", {}).get("content", {})
    kinds: list[type[FoldexError]] = [errors.Unauthorized, errors.TokenInvalid, errors.TokenUnusable]
    kinds += [errors.IssuerUnavailable, errors.ScopeMissing, errors.NotLoopback]
    if "{" in path:
        kinds.append(errors.NotFound)
    if operation.get("parameters") or body_types:
        kinds.append(errors.Invalid)
    if method != "get":
        kinds += [errors.CrossSite, errors.TooLarge, errors.BodiesBusy]
        # an upload may take its time
        kinds += [] if "multipart/form-data" in body_types else [errors.BodyTooSlow]
    if "application/json" in body_types:
        kinds.append(errors.TooManyValues)
        yield INVALID_JSON
    yield from map(_fault, kinds)


def _fault(kind: type[FoldexError]) -> DescribedError:
    meaning = (inspect.getdoc(kind) or "").split(". ")[0].split("\n\n")[0].replace("\n", " ").rstrip(".") + "."
    detail = vars(kind).get("example") or meaning
    return DescribedError(kind.code, kind.status, meaning, detail, kind.retryable)


def _response(faults: Iterable[DescribedError]) -> OpenApi:
    faults = list(faults)
    meanings = [f"- `{fault.code}`: {fault.meaning}" for fault in faults]
    examples = {fault.code: {"summary": fault.meaning, "value": _example(fault)} for fault in faults}
    response: OpenApi = {
        "description": "\n".join(meanings),
        "content": {"application/problem+json": {"schema": _PROBLEM, "examples": examples}},
    }
    if any(fault.retryable for fault in faults):
        response["headers"] = _RETRY_AFTER
    if any(fault.code in _CHALLENGED for fault in faults):
        response["headers"] = _CHALLENGE
    return response


def _example(fault: DescribedError) -> OpenApi:
    title = HTTPStatus(fault.status).phrase
    return {"type": "about:blank", "title": title, "status": fault.status, "code": fault.code, "detail": fault.detail}
